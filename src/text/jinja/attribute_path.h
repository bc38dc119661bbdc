// "function.parameters.0": the way to a value inside an element, as the filters map, sort, sum and their like take it.
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
