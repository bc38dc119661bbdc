#include "text/jinja/code_points.h"

#include <utf8proc.h>

#include <cstring>

#include "text/jinja/case_mapping.h"

namespace octavo::jinja {
namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_ascii_upper(char32_t c) { return c >= 'A' && c <= 'Z'; }
bool is_ascii_lower(char32_t c) { return c >= 'a' && c <= 'z'; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018;
  }
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80)
    out += static_cast<char>(is_ascii_lower(c) ? c - 32 : c);
  else if (const char* several = upper_expansion(c))
    out += several;
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (c < 0x80)
    out += static_cast<char>(is_ascii_lower(c) ? c - 32 : c);
  else if (const char* several = title_expansion(c))
    out += several;
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80)
    out += static_cast<char>(is_ascii_upper(c) ? c + 32 : c);
  else if (c == 0x130)
    out += "i\u0307";
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

// A capital sigma that ends a word is ς, any other σ. `position` is behind it, `begin` before it. The look to either
// side is kept short, so that a text of case-ignorable characters stays linear.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t position) {
  constexpr int kReach = 32;
  std::size_t at = begin;
  bool before = false;
  for (int i = 0; i < kReach && at > 0; ++i) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    std::size_t behind = at;
    const char32_t c = decode_code_point(text, behind);
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  for (int i = 0; before && i < kReach && position < text.size(); ++i) {
    const char32_t c = decode_code_point(text, position);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return before;
}

// Lower case of the character in [begin, behind) of `text`.
void append_lower_at(std::string& out, std::string_view text, std::size_t begin, std::size_t behind, char32_t c) {
  if (c == 0x3A3)
    out += is_final_sigma(text, begin, behind) ? "ς" : "σ";
  else
    append_lower(out, c);
}

}  // namespace

char32_t decode_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  const char32_t first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code_point = size == 1 ? first : first & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) code_point = code_point << 6 | (byte(i) & 0x3F);
  position += size;
  return code_point;
}

void append_code_point(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::size_t code_point_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && index-- == 0) break;
  return at;
}

std::string_view code_point_range(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin >= end) return {};
  const std::size_t first = code_point_offset(text, begin);
  const std::string_view rest = text.substr(first);
  return rest.substr(0, code_point_offset(rest, end - begin));
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return is_digit(c) || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return c < 0x80 ? is_ascii_upper(c) : utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) && !is_title(c);
}

bool is_lower(char32_t c) {
  return c < 0x80 ? is_ascii_lower(c) : utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}

bool is_title(char32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }

std::string to_upper(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(out, decode_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = decode_code_point(text, at);
    append_lower_at(out, text, begin, at, c);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = decode_code_point(text, at);
    if (in_word)
      append_lower_at(out, text, begin, at, c);
    else
      append_title(out, c);
    in_word = is_cased(c);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  if (text.empty()) return {};
  std::string out;
  std::size_t at = 0;
  append_title(out, decode_code_point(text, at));
  while (at < text.size()) {
    const std::size_t begin = at;
    const char32_t c = decode_code_point(text, at);
    append_lower_at(out, text, begin, at, c);
  }
  return out;
}

std::string to_swapped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = decode_code_point(text, at);
    if (is_upper(c))
      append_lower_at(out, text, begin, at, c);
    else if (is_lower(c))
      append_upper(out, c);
    else
      append_code_point(out, c);
  }
  return out;
}

std::string to_folded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_code_point(text, at);
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_code_point(out, static_cast<char32_t>(folded[i]));
  }
  return out;
}

std::string_view strip(std::string_view text, bool left, bool right, const std::string* characters) {
  const auto goes = [&](std::string_view one) {
    std::size_t at = 0;
    if (!characters) return is_space(decode_code_point(one, at));
    return characters->find(one) != std::string::npos;  // UTF-8: a whole character is only found at a whole character
  };
  while (left && !text.empty()) {
    std::size_t behind = 0;
    decode_code_point(text, behind);
    if (!goes(text.substr(0, behind))) break;
    text.remove_prefix(behind);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace octavo::jinja
