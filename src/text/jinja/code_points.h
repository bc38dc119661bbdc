// Python's str, as far as templates need it: code points, classes of characters, white space, letter case, search.
//
// Text is UTF-8, and must be valid: it was checked where it came in. Every function takes linear time, except for strip
// with many characters. Classes and case follow Python's str methods, not a locale.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo::jinja {

char32_t decode_code_point(std::string_view text, std::size_t& position);  // moves position behind it
void append_code_point(std::string& text, char32_t code_point);
std::size_t count_code_points(std::string_view text);
// Byte offset of the code point `index`; the end of the text when there are fewer.
std::size_t code_point_offset(std::string_view text, std::size_t index);
// The code points [begin, end).
std::string_view code_point_range(std::string_view text, std::size_t begin, std::size_t end);

// text.find(part, from) in linear time whatever the two are; std::string's can take the product of their lengths.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);

bool is_space(char32_t code_point);      // str.isspace, and \s in a regular expression
bool is_printable(char32_t code_point);  // false: repr() escapes it
bool is_letter(char32_t code_point);     // str.isalpha
bool is_decimal(char32_t code_point);    // category Nd
bool is_digit(char32_t code_point);      // str.isdigit: Nd, superscripts and the like
bool is_numeric(char32_t code_point);    // str.isnumeric, near enough: any N* and digits
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);
bool is_title(char32_t code_point);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        // str.title: every run of letters
std::string to_capitalized(std::string_view text);  // the first character in title case, the others in lower case
std::string to_swapped(std::string_view text);
std::string to_folded(std::string_view text);  // str.casefold

// str.strip, lstrip, rstrip. `characters` null: white space.
std::string_view strip(std::string_view text, bool left, bool right, const std::string* characters = nullptr);

}  // namespace octavo::jinja
