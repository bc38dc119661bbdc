// Literals of Python and Jinja: numbers with bases and underscores, strings with escapes; and the same read from text
// by int() and float().
//
// Refused: whole numbers beyond 128 bits, escapes of surrogates, and \N with a name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace octavo::jinja {

struct Number {
  std::size_t num_bytes = 0;
  bool is_real = false;
  bool too_large = false;  // for 128 bits
  Int integer = 0;
  double real = 0;
};

// The number at the beginning of `text`. After a dot ("x.1.5") only an integer is one.
bool scan_number(std::string_view text, bool after_dot, Number& number);

// Resolves the escapes of a string between its quotes. Null, or what is wrong with it.
const char* unescape(std::string_view text, std::string& out);

// int(text, base) and float(text); nullopt where Python raises ValueError, or where 128 bits do not hold the number.
std::optional<Int> parse_python_int(std::string_view text, int base);
std::optional<double> parse_python_float(std::string_view text);

std::string to_decimal(Int value);

}  // namespace octavo::jinja
