// Python's two ways to format: "%s and %05.2f" % (a, b), and "{} and {:>5}".format(a, b).
//
// Widths and precisions are limited; attributes inside a field go through the sandbox. Refused: what Python refuses,
// and the precision of a whole number under "%".
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

Value format_percent(const Value& pattern, const Value& arguments, Interpreter& in);
Value format_braces(const Value& pattern, const Arguments& arguments, Interpreter& in);

// One value under a specification such as ">8", "05d", ".2f", ",", "x"; as format(value, spec).
std::string format_value(const Value& value, std::string_view spec, Interpreter& in);

}  // namespace octavo::jinja
