#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/strings.h"

namespace octavo::log {
namespace {

spdlog::logger& sink() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("octavo", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%H:%M:%S %^%l%$ %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

void write(spdlog::level::level_enum level, std::string_view event, Fields fields) {
  if (sink().should_log(level)) sink().log(level, format_line(event, fields));
}

}  // namespace

Field::Field(std::string_view k, double v) : key(k), value(fmt::format("{:.6g}", v)) {}

std::string format_line(std::string_view event, Fields fields) {
  std::string line(event);
  for (const Field& field : fields) {
    const bool plain = !field.value.empty() && field.value.find_first_of(" \"=\n\r\t") == std::string::npos;
    line += fmt::format(" {}={}", field.key, plain ? field.value : in_quotes(field.value));
  }
  return line;
}

void set_level(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  sink().set_level(kLevels[static_cast<int>(level)]);
}

void debug(std::string_view event, Fields fields) { write(spdlog::level::debug, event, fields); }
void info(std::string_view event, Fields fields) { write(spdlog::level::info, event, fields); }
void warn(std::string_view event, Fields fields) { write(spdlog::level::warn, event, fields); }
void error(std::string_view event, Fields fields) { write(spdlog::level::err, event, fields); }

}  // namespace octavo::log
