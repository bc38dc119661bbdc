// AttributePath: the way to a value inside an element, "function.parameters.0", as the filters map, sort, sum take it.
//
// A step of digits is an index, any other a key or attribute. A step that leads nowhere gives undefined; the next one
// fails on it, unless there is a fallback.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

class AttributePath {
 public:
  explicit AttributePath(const Value& path);  // None: the element itself
  // Where a step leads nowhere, goes on from `fallback`, unless that is None.
  Value of(const Value& element, Interpreter& in, const Value& fallback = {}) const;
  static std::vector<AttributePath> several(const Value& paths);  // separated by commas

 private:
  std::vector<Value> steps_;
};

// What Jinja compares by default: strings without their case.
Value without_case(const Value& value, Interpreter& in);

}  // namespace octavo::jinja
