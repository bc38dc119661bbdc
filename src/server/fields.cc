#include "server/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/json_marks.h"
#include "base/shown.h"

namespace octavo {
namespace {

// OrderedJson finds and inserts a key by looking at all of them.
constexpr int kMaxKeys = 4096;

std::optional<std::int64_t> whole_number(const OrderedJson& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) >= 0x1p53) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// A number that whole_number() does not know for its size alone.
bool is_large(const OrderedJson& value) {
  return value.is_number_unsigned() || (value.is_number_float() && std::abs(value.get<double>()) >= 0x1p53);
}

// Whether some object of the text has more than kMaxKeys keys. Needs no valid JSON.
bool too_wide(std::string_view text) {
  std::vector<int> keys(1, 0);
  bool wide = false;
  each_json_mark(text, [&keys, &wide](char c) {
    if (c == '{' || c == '[') {
      if (keys.size() > static_cast<std::size_t>(kMaxJsonDepth)) return false;  // refused for its depth
      keys.push_back(0);
    } else if (c == '}' || c == ']') {
      if (keys.size() > 1) keys.pop_back();
    } else if (c == ':') {
      wide = ++keys.back() > kMaxKeys;
    }
    return !wide;
  });
  return wide;
}

// The field of the body in whose value this number stands: the last name at the outermost level before it.
std::string field_holding(std::string_view body, std::string_view number) {
  std::string_view field;
  int depth = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '"') {
      const std::size_t begin = i + 1;
      for (++i; i < body.size() && body[i] != '"'; ++i)
        if (body[i] == '\\') ++i;
      const std::string_view text = body.substr(begin, std::min(i, body.size()) - begin);
      const std::size_t next = body.find_first_not_of(" \t\r\n", i + 1);
      if (depth == 1 && next != std::string_view::npos && body[next] == ':') field = text;
    } else if (body[i] == '{' || body[i] == '[') {
      ++depth;
    } else if (body[i] == '}' || body[i] == ']') {
      --depth;
    } else if (body.substr(i).starts_with(number)) {
      break;
    }
  }
  return std::string(field.substr(0, 100));
}

// Of a body that is no JSON. A number that no double holds belongs to a field.
ApiError unreadable(std::string_view body, const std::string& why) {
  constexpr std::string_view kOverflow = "number overflow parsing '";
  const std::size_t place = why.find(kOverflow);
  if (place == std::string::npos) return {.message = why};
  const std::size_t begin = place + kOverflow.size();
  const std::string number = why.substr(begin, why.find('\'', begin) - begin);
  const std::string field = field_holding(body, number);
  return {.message = field + " holds a number that is too large: " + number.substr(0, 40), .param = field};
}

}  // namespace

std::string shown(const OrderedJson& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  constexpr std::size_t kLongest = 60;
  return visible(to_text(value), kLongest);
}

const OrderedJson* Fields::find(std::string_view key) const {
  if (error_) return nullptr;
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number && !is_large(*value)) {
    wrong_type(key, "a whole number");
    return std::nullopt;
  }
  if (!number || *number < low || *number > high) {
    refuse(key, where_ + std::string(key) + " is " + shown(*value) + ": it must be between " + std::to_string(low) +
                    " and " + std::to_string(high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> Fields::number(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(key, "a number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<bool> Fields::flag(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    wrong_type(key, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong_type(key, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

const OrderedJson* Fields::array(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value != nullptr && !value->is_array()) wrong_type(key, "a list");
  return error_ ? nullptr : value;
}

const OrderedJson* Fields::object(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value != nullptr && !value->is_object()) wrong_type(key, "an object");
  return error_ ? nullptr : value;
}

void Fields::store(std::string_view key, float& target) {
  const auto value = number(key);
  if (!value) return;
  if (std::abs(*value) > std::numeric_limits<float>::max())
    return refuse(key, where_ + std::string(key) + " is " + shown(*find(key)) + ": it must be a number below 3.4e38");
  target = static_cast<float>(*value);
  // What is too small for a float is not nothing: zero means something else.
  if (target == 0 && *value != 0) target = std::copysign(std::numeric_limits<float>::min(), static_cast<float>(*value));
}

void Fields::store(std::string_view key, int& target) {
  if (const auto value = integer(key)) target = static_cast<int>(*value);
}

void Fields::store(std::string_view key, std::string& target) {
  if (auto value = text(key)) target = *std::move(value);
}

void Fields::wrong_type(std::string_view key, const char* wanted) {
  const OrderedJson* value = find(key);
  refuse(key, where_ + std::string(key) + " must be " + wanted + (value ? ", but is " + shown(*value) : ""));
}

void Fields::wrong_entry(std::string_view key, std::size_t index, const OrderedJson& value, const char* wanted) {
  refuse(key,
         where_ + std::string(key) + "[" + std::to_string(index) + "] must be " + wanted + ", but is " + shown(value));
}

void Fields::refuse(std::string_view key, std::string message, int status) {
  if (error_) return;
  error_ = ApiError{.status = status, .message = std::move(message), .param = where_ + std::string(key)};
}

Body parse_body(std::string_view text) {
  Body body;
  if (text.empty()) {
    body.error = ApiError{.message = "the request has no body: send a JSON object"};
    return body;
  }
  if (too_wide(text)) {
    body.error =
        ApiError{.message = "the body holds a JSON object with more than " + std::to_string(kMaxKeys) + " keys"};
    return body;
  }
  auto json = parse_ordered_json(text, "the body");
  if (!json) {
    body.error = unreadable(text, json.error().message());
  } else if (!json->is_object()) {
    body.error = ApiError{.message = "the body must be a JSON object, but is " + shown(*json)};
  } else {
    body.json = *std::move(json);
  }
  return body;
}

std::optional<std::int32_t> token_id(const OrderedJson& value) {
  const auto number = whole_number(value);
  if (!number || *number < 0 || *number > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(*number);
}

}  // namespace octavo
