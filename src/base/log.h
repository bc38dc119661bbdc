// One line an event on stderr: `info kv cache dtype=fp8_e4m3 tokens=8192`. Four levels, nothing per token.
// The level and the sink are the only process-wide state; main sets them before threads start.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace octavo::log {

enum class Level { debug, info, warn, error };

struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  Field(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, double v);

  std::string_view key;
  std::string value;  // quoted when written if it holds a space, a quote or a control character
};

using Fields = std::initializer_list<Field>;

void set_level(Level level);
void debug(std::string_view event, Fields fields = {});
void info(std::string_view event, Fields fields = {});
void warn(std::string_view event, Fields fields = {});
void error(std::string_view event, Fields fields = {});

// The line without level and time, as the sink gets it (for tests).
std::string format_line(std::string_view event, Fields fields);

}  // namespace octavo::log
