// Names by pattern: `*` stands for any characters, `?` for one.
#pragma once

#include <cstddef>
#include <string_view>

namespace octavo {

constexpr bool matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0, in = 0;
  std::size_t star = std::string_view::npos, from = 0;  // the last star, and the first character that it leaves
  while (in < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      from = in;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[in])) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      // Only the last star takes more: an earlier one never needs to.
      at = star + 1;
      in = ++from;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace octavo
