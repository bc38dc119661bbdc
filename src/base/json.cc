#include "base/json.h"

#include <cmath>

#include "base/file.h"
#include "base/json_marks.h"
#include "base/shown.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxReasonBytes = 300;  // it quotes the text where it broke off, perhaps all of it

// nlohmann's parser is iterative but its destructor and dump are not bounded by anything, so depth is checked first.
Status check_depth(std::string_view text, std::string_view what) {
  int depth = 0;
  const bool bounded = each_json_mark(text, [&depth](char c) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    return depth <= kMaxJsonDepth;
  });
  if (bounded) return {};
  return Error(std::string(what) + ": JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
}

template <class J>
Result<J> parse(std::string_view text, std::string_view what) {
  OCTAVO_TRY(check_depth(text, what));
  try {
    return J::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& failure) {
    std::string reason = failure.what();
    if (const std::size_t bracket = reason.find("] "); bracket != std::string::npos)
      reason = reason.substr(bracket + 2);
    return Error(std::string(what) + ": not valid JSON: " + visible(reason, kMaxReasonBytes));
  }
}

Error wrong_type(std::string_view key, const Json& value, const char* expected) {
  return Error("\"" + std::string(key) + "\" must be " + expected + ", but is " + shown(value));
}

template <class T>
Result<T> required(Result<std::optional<T>> found, std::string_view key) {
  if (!found) return std::move(found).error();
  if (!found->has_value()) return Error("\"" + std::string(key) + "\" is missing", ErrorKind::not_found);
  return std::move(**found);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) { return parse<Json>(text, what); }
Result<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what) {
  return parse<OrderedJson>(text, what);
}

Result<Json> read_json_file(const std::string& path) {
  OCTAVO_TRY(const std::string text, read_file(path));
  return parse_json(text, path);
}

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::optional<std::int64_t>> find_int(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return wrong_type(key, *value, "a whole number below 2^63");
  if (value->is_number_integer()) return std::optional(value->get<std::int64_t>());
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (number == std::floor(number) && std::abs(number) < 0x1p53)
      return std::optional(static_cast<std::int64_t>(number));
  }
  return wrong_type(key, *value, "a whole number");
}

Result<std::optional<double>> find_number(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) return wrong_type(key, *value, "a finite number");
  return std::optional(value->get<double>());
}

Result<std::optional<bool>> find_bool(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, *value, "true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> find_string(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, *value, "a string");
  return std::optional(value->get<std::string>());
}

Result<std::int64_t> get_int(const Json& object, std::string_view key) { return required(find_int(object, key), key); }
Result<double> get_number(const Json& object, std::string_view key) { return required(find_number(object, key), key); }
Result<bool> get_bool(const Json& object, std::string_view key) { return required(find_bool(object, key), key); }
Result<std::string> get_string(const Json& object, std::string_view key) {
  return required(find_string(object, key), key);
}

std::string to_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string to_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace octavo
