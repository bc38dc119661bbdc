// Fields: typed reads of a request's JSON. Unknown fields are ignored, null means absent, and a value of the wrong type
// is an error that names the field. The first error counts; reads after it give nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/errors.h"

namespace octavo {

class Fields {
 public:
  // where: what stands before the names of fields in errors, "stream_options."; the object must outlive this.
  explicit Fields(const OrderedJson& object, std::string where = {}) : object_(object), where_(std::move(where)) {}

  const OrderedJson* find(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low = INT32_MIN,
                                      std::int64_t high = INT32_MAX);
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  const OrderedJson* array(std::string_view key);
  const OrderedJson* object(std::string_view key);

  // Store where the field is given.
  void store(std::string_view key, bool& target) { target = flag(key).value_or(target); }
  void store(std::string_view key, float& target);
  void store(std::string_view key, int& target);
  void store(std::string_view key, std::string& target);

  // "FIELD must be WANTED, but is ...".
  void wrong_type(std::string_view key, const char* wanted);
  // "FIELD[3] must be WANTED, but is ...".
  void wrong_entry(std::string_view key, std::size_t index, const OrderedJson& value, const char* wanted);
  void refuse(std::string_view key, std::string message, int status = 400);
  const std::optional<ApiError>& error() const { return error_; }
  void take_error(const Fields& inner) {
    if (!error_) error_ = inner.error();
  }

 private:
  const OrderedJson& object_;
  std::string where_;
  std::optional<ApiError> error_;
};

// The body of a request: an object. Refuses what is no JSON, and objects so wide that looking into them takes forever.
struct Body {
  OrderedJson json;
  std::optional<ApiError> error;
};
Body parse_body(std::string_view text);

// A value as a message shows it: "a list", "5", "\"text\"", cut when long.
std::string shown(const OrderedJson& value);

// A token id out of JSON, or nothing.
std::optional<std::int32_t> token_id(const OrderedJson& value);

}  // namespace octavo
