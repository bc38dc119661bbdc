// Values as text: str(), repr() and json.dumps() of Python, byte for byte.
//
// Numbers are printed with the fewest digits that read back the same. Objects that Python prints with an address
// (generators, functions) are printed by type alone. Values may share parts; the budget bounds how often one is
// written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace octavo::jinja {

void write_text(TextBuilder& out, const Value& value, Budget& budget);  // str(value); undefined is empty
void write_repr(TextBuilder& out, const Value& value, Budget& budget);
std::string to_text(const Value& value, Budget& budget);
std::string to_repr(const Value& value, Budget& budget);
std::string repr_of(std::string_view text);  // 'it\'s', as Python quotes a str
std::string repr_of(double value);           // 1.0, 1e+20, nan

struct JsonStyle {
  std::optional<std::string> indent;  // of one level; absent: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);  // fails on what JSON cannot say

}  // namespace octavo::jinja
