// Token: one word of a template; tokenize() cuts a template into them.
//
// White space control (-, +, trim_blocks, lstrip_blocks), comments and raw blocks are settled here; the parser sees
// data, names, literals and operators. Operators are tokens whose text is the operator itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace octavo::jinja {

struct Token {
  enum class Type { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, op, end };
  Type type = Type::end;
  int line = 1;
  std::string text;  // data, name, operator; a string with its escapes resolved
  Int integer = 0;
  double real = 0;

  bool is_op(std::string_view op) const { return type == Type::op && text == op; }
  bool is_name(std::string_view name) const { return type == Type::name && text == name; }
};

std::vector<Token> tokenize(std::string_view source);  // fails with a line
std::string describe(const Token& token);              // "'foo'", "the end of the template"; for messages

}  // namespace octavo::jinja
