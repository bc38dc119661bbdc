#include "text/chat_template.h"

#include <new>

#include "base/json.h"
#include "base/shown.h"
#include "base/strings.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxSourceBytes = 1 << 20;  // real templates have some 10 kB
constexpr std::size_t kMaxMessageBytes = 500;     // it quotes the template

jinja::Value checked_text(const std::string& text, jinja::Budget& budget) {
  if (find_invalid_utf8(text) != std::string::npos) jinja::fail("a text given to the template is not valid UTF-8");
  return jinja::make_text(budget, text);
}

jinja::Value to_value(const OrderedJson& json, jinja::Budget& budget) {
  const jinja::DepthGuard depth(budget);
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return jinja::Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return jinja::Value::integer(json.get<std::int64_t>());
    case OrderedJson::value_t::number_unsigned:
      return jinja::Value(static_cast<jinja::Int>(json.get<std::uint64_t>()));
    case OrderedJson::value_t::number_float:
      return jinja::Value(json.get<double>());
    case OrderedJson::value_t::string:
      return checked_text(json.get_ref<const std::string&>(), budget);
    case OrderedJson::value_t::array: {
      std::vector<jinja::Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(to_value(item, budget));
      return jinja::make_list(budget, std::move(items));
    }
    case OrderedJson::value_t::object: {
      std::vector<std::pair<jinja::Value, jinja::Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items())
        entries.emplace_back(checked_text(key, budget), to_value(value, budget));
      return jinja::make_dict(budget, std::move(entries));
    }
    default:
      return {};
  }
}

std::tm local_time(const std::optional<std::tm>& given) {
  std::tm time{};
  if (given) {
    time = *given;
    timegm(&time);  // fills in the day of the week and of the year
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &time);
  }
  return time;
}

Error to_error(const jinja::Failure& failure, int line) {
  if (failure.by_template) return Error(failure.message);
  std::string place = "chat template";
  if (failure.line != 0) line = failure.line;
  if (line != 0) place += ", line " + std::to_string(line);
  return Error(visible(failure.message, kMaxMessageBytes)).in(place);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::shared_ptr<const jinja::Program> program)
    : source_(std::move(source)), program_(std::move(program)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  if (source.size() > kMaxSourceBytes)
    return Error("chat template: it has " + std::to_string(source.size()) + " bytes, and the limit is " +
                 std::to_string(kMaxSourceBytes));
  if (const std::size_t at = find_invalid_utf8(source); at != std::string::npos)
    return Error("chat template: byte " + std::to_string(at) + " is not valid UTF-8");
  try {
    auto program = std::make_shared<const jinja::Program>(jinja::parse_program(source));
    return ChatTemplate(std::move(source), std::move(program));
  } catch (const jinja::Failure& failure) {
    return to_error(failure, 0);
  }
}

Result<std::string> ChatTemplate::render(const OrderedJson& variables, const TemplateLimits& limits,
                                         const std::optional<std::tm>& now) const {
  if (!variables.is_object()) return Error("the variables of a chat template must be a JSON object");
  jinja::Budget budget(limits.max_steps, limits.max_memory_bytes, limits.max_depth);
  int line = 0;
  try {
    jinja::Interpreter interpreter(*program_, budget, limits.max_output_bytes, local_time(now));
    try {
      for (const auto& [name, value] : variables.items()) interpreter.define(name, to_value(value, budget));
      return interpreter.run();
    } catch (const jinja::Failure&) {
      line = interpreter.line();
      throw;
    }
  } catch (const jinja::Failure& failure) {
    return to_error(failure, line);
  } catch (const std::bad_alloc&) {
    return Error("chat template: there is not enough memory to render it", ErrorKind::exhausted);
  }
}

}  // namespace octavo
