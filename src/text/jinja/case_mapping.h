// The characters whose upper or title case is more than one character: "ß" becomes "SS", "ŉ" becomes "ʼN".
//
// A table of its own, because utf8proc maps one character to one. From Unicode's unconditional special casing; the
// rules that depend on a language are left out, as Python leaves them out. Null: an ordinary character.
#pragma once

namespace octavo::jinja {

const char* upper_expansion(char32_t code_point);  // UTF-8
const char* title_expansion(char32_t code_point);

}  // namespace octavo::jinja
