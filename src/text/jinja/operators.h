// Python's operators on values: arithmetic, comparison, membership, signs.
//
// Whole numbers stay whole except under "/", and fail beyond 128 bits. Division rounds down, as Python's does. Types
// that Python does not mix are refused with both types named; an undefined operand fails with its own message.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

Value apply(Op op, const Value& left, const Value& right, Interpreter& in);  // + - * / // % **
bool compare(Op op, const Value& left, const Value& right, Budget& budget);  // == != < <= > >= in, not in
bool contains(const Value& container, const Value& element, Budget& budget);
Value signed_value(const Value& value, bool negative);  // -x, +x
std::string escape_html(std::string_view text);
double python_round(double value, std::int64_t digits);  // half to even, of the exact decimal value

}  // namespace octavo::jinja
