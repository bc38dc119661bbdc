// The global functions of a template: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
//
// A variable of the same name hides one. Ranges are limited to 100,000 numbers, as in Jinja's sandbox; strftime_now
// shows the interpreter's time and refuses format letters that C and Python do not share.
#pragma once

#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

struct FunctionRow {
  std::string_view name;
  Value (*function)(Interpreter& in, Arguments& arguments);
};

struct Function : Object {
  const FunctionRow* row = nullptr;
};

const FunctionRow* find_function(std::string_view name);  // null: there is none
Value make_function(Budget& budget, const FunctionRow& row);

}  // namespace octavo::jinja
