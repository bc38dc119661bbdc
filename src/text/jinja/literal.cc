#include "text/jinja/literal.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/jinja/code_points.h"

namespace octavo::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Length of a run of digits in which single underscores may stand between digits (and before the first when `lead`).
std::size_t digits_size(std::string_view text, int base, bool lead) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (digit_value(text[at]) < base)
      ++at;
    else if (text[at] == '_' && (at > 0 || lead) && at + 1 < text.size() && digit_value(text[at + 1]) < base)
      at += 2;
    else
      break;
  }
  return at;
}

bool accumulate(std::string_view digits, int base, Int& value) {
  for (const char c : digits) {
    if (c == '_') continue;
    if (__builtin_mul_overflow(value, static_cast<Int>(base), &value)) return false;
    if (__builtin_add_overflow(value, static_cast<Int>(digit_value(c)), &value)) return false;
  }
  return true;
}

// Bytes of the fraction and exponent behind `whole` digits; 0 when this is no float.
std::size_t real_tail_size(std::string_view text) {
  std::size_t at = 0;
  if (!text.empty() && text[0] == '.') {
    const std::size_t fraction = digits_size(text.substr(1), 10, false);
    if (fraction > 0) at = 1 + fraction;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const std::size_t digits = digits_size(text.substr(exponent), 10, false);
    if (digits > 0) at = exponent + digits;
  }
  return at;
}

double read_double(std::string_view text) {
  std::string plain;
  std::remove_copy(text.begin(), text.end(), std::back_inserter(plain), '_');
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc::result_out_of_range) return value;
  const std::size_t exponent = plain.find_first_of("eE");
  const bool tiny = exponent != std::string::npos && exponent + 1 < plain.size() && plain[exponent + 1] == '-';
  return tiny ? 0.0 : std::numeric_limits<double>::infinity();
}

// \xNN, \uNNNN, \UNNNNNNNN: reads `count` digits.
bool hex_escape(std::string_view text, std::size_t& at, std::size_t count, std::string& out) {
  char32_t value = 0;
  for (std::size_t i = 0; i < count; ++i, ++at) {
    if (at >= text.size() || digit_value(text[at]) > 15) return false;
    value = value * 16 + static_cast<char32_t>(digit_value(text[at]));
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
  append_code_point(out, value);
  return true;
}

void octal_escape(std::string_view text, std::size_t& at, std::string& out) {
  char32_t value = 0;
  for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i, ++at)
    value = value * 8 + static_cast<char32_t>(text[at] - '0');
  append_code_point(out, value);
}

}  // namespace

bool scan_number(std::string_view text, bool after_dot, Number& number) {
  if (text.empty() || !is_ascii_digit(text[0])) return false;
  if (!after_dot) {
    const std::size_t whole = digits_size(text, 10, false);
    const std::size_t tail = real_tail_size(text.substr(whole));
    if (tail > 0) {
      number.is_real = true;
      number.num_bytes = whole + tail;
      number.real = read_double(text.substr(0, number.num_bytes));
      return true;
    }
  }
  const char mark = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : '\0';
  const int base = text[0] != '0' ? 10 : mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 1;
  const std::size_t prefix = base == 10 || base == 1 ? 0 : 2;
  std::size_t size = digits_size(text.substr(prefix), base, prefix > 0);
  if (prefix > 0 && size == 0) return number.num_bytes = 1, true;  // "0" and then a name
  number.num_bytes = prefix + size;
  number.too_large = !accumulate(text.substr(prefix, size), base, number.integer);
  return true;
}

const char* unescape(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    const char code = text[++at];
    if (code >= '0' && code <= '7') {
      octal_escape(text, at, out);
      continue;
    }
    ++at;
    switch (code) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        out += code;
        break;
      case 'a':
        out += '\a';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'v':
        out += '\v';
        break;
      case 'x':
      case 'u':
      case 'U':
        if (!hex_escape(text, at, code == 'x' ? 2 : code == 'u' ? 4 : 8, out))
          return "a string has a \\x, \\u or \\U escape that is cut short or names no character";
        break;
      case 'N':
        return "a string has a \\N{name} escape, which is not supported: write \\uNNNN";
      default:
        out += '\\';
        out += code;
    }
  }
  return nullptr;
}

std::optional<Int> parse_python_int(std::string_view text, int base) {
  text = strip(text, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  bool prefixed = false;
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      prefixed = true;
      text.remove_prefix(2);
    }
  }
  if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  if (text.empty() || digits_size(text, base, prefixed) != text.size()) return std::nullopt;
  Int value = 0;
  if (!accumulate(text, base, value)) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_python_float(std::string_view text) {
  text = strip(text, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const double sign = negative ? -1.0 : 1.0;
  const std::string word = text.size() < 10 ? to_lower(text) : std::string();
  if (word == "inf" || word == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  const std::size_t whole = digits_size(text, 10, false);
  std::size_t size = whole + real_tail_size(text.substr(whole));
  if (size == whole && whole > 0 && text.substr(whole).starts_with('.')) {  // "1." and "1.e5"
    const std::size_t exponent = real_tail_size(text.substr(whole + 1));
    if (exponent == 0 || (text[whole + 1] | 0x20) == 'e') size = whole + 1 + exponent;
  }
  if (size == 0 || size != text.size() || (whole == 0 && text[0] != '.')) return std::nullopt;
  return sign * read_double(text);
}

std::string to_decimal(Int value) {
  const bool negative = value < 0;
  __extension__ unsigned __int128 rest = static_cast<unsigned __int128>(value);
  if (negative) rest = -rest;
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace octavo::jinja
