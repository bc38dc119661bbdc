// Methods of Python's types. A name that Python has but that would change the value is refused, as the sandbox does;
// one that we do not implement says so when it is called.
//
// Strings, dicts, lists, tuples, ranges, loops and cyclers have methods; text_methods.cc asks, text_change_methods.cc
// makes.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

enum class MethodAccess { none, allowed, refused };

struct MethodRow {
  std::string_view name;
  Value (*function)(Interpreter& in, const Value& self, Arguments& arguments);  // null: known, not implemented
  bool refused = false;
};

MethodAccess method_access(const Value& self, std::string_view name);
bool is_callable_method(const Value& self, std::string_view name);  // allowed and implemented
Value call_method(Interpreter& in, const Value& self, const std::string& name, Arguments& arguments);
Value make_method(Budget& budget, const Value& self, const std::string& name);

// The tables, by name of the method in ascending order.
const MethodRow* find_text_method(std::string_view name);
const MethodRow* find_text_change_method(std::string_view name);

}  // namespace octavo::jinja
