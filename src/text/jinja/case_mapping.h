// The characters whose upper or title case is more than one character: "ß" becomes "SS". Null: an ordinary character.
#pragma once

namespace octavo::jinja {

const char* upper_expansion(char32_t code_point);  // UTF-8
const char* title_expansion(char32_t code_point);

}  // namespace octavo::jinja
