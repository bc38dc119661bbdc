// How a message shows what a file or a request says: on one line, whatever bytes it has, and cut when it is long.
// For text with quotes around it there is in_quotes (base/strings.h).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace octavo {

constexpr std::size_t kShownBytes = 80;

// Control characters escaped; beyond `longest` bytes "..." stands for the rest. Characters stay whole.
std::string visible(std::string_view text, std::size_t longest = kShownBytes);

// A value as JSON, shown so.
std::string shown(const nlohmann::json& value);

}  // namespace octavo
