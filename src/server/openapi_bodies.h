// What /openapi.json says of requests' bodies: the type and bounds of each field, and which fields need each other. It
// is as strict as the readers (wire_*.cc) are, but for what no schema can say: how many tokens a text has, that one
// number must not exceed another, and what a template makes of the messages.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "server/words.h"

namespace octavo {

// nullopt: the route looks at no body.
std::optional<OrderedJson> body_schema(std::string_view path, const Words& words);

// A pattern for the whole numbers from 0 to `last`, as keys of an object write them.
std::string ids_pattern(int last);

}  // namespace octavo
