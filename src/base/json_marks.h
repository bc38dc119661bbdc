// The characters of a JSON text outside of its strings, for checks that come before a parser. Needs no valid JSON.
#pragma once

#include <string_view>

namespace octavo {

// Calls visit(character) for each until it says false; whether it never did.
template <class Visit>
bool each_json_mark(std::string_view text, Visit&& visit) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (!visit(c)) {
      return false;
    }
  }
  return true;
}

}  // namespace octavo
