// JSON with errors that name the place. nlohmann's type, our parsing: depth is bounded, nothing throws.
//
// Json keeps keys sorted and looks them up fast: configs, tokenizers, requests. OrderedJson keeps the order of the
// text, which a chat template's `tojson` and iteration show; its lookup is linear, so it is for small objects only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 128;

// `what` names the text in the message: "config.json: line 3, column 7: expected ':'".
Result<Json> parse_json(std::string_view text, std::string_view what);
Result<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what);
Result<Json> read_json_file(const std::string& path);

// Typed reads of one key of an object. A missing or null key is `not_found` (get_*) or nullopt (find_*); another type
// is an error that names key, what was expected and what stands there. Whole numbers written as 8.0 are accepted as 8.
Result<std::int64_t> get_int(const Json& object, std::string_view key);
Result<double> get_number(const Json& object, std::string_view key);  // finite
Result<bool> get_bool(const Json& object, std::string_view key);
Result<std::string> get_string(const Json& object, std::string_view key);
Result<std::optional<std::int64_t>> find_int(const Json& object, std::string_view key);
Result<std::optional<double>> find_number(const Json& object, std::string_view key);
Result<std::optional<bool>> find_bool(const Json& object, std::string_view key);
Result<std::optional<std::string>> find_string(const Json& object, std::string_view key);

// The member, or nullptr when `object` is no object, or the key is missing or null.
const Json* find_member(const Json& object, std::string_view key);

// Text of any value, invalid UTF-8 replaced (dump() would throw on it).
std::string to_text(const Json& value);
std::string to_text(const OrderedJson& value);

}  // namespace octavo
