// Arguments of a call, and their binding to the parameters of a filter, test, method or function of ours.
//
// Binding follows Python: by position, then by name; too many, unknown and missing ones fail with callee and parameter
// named. Macros bind by themselves (calls.cc), because they have defaults to evaluate.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace octavo::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The values of named parameters. Reading one with the wrong type fails and names callee and parameter.
class Bound {
 public:
  // Fails on too many, twice given or unknown arguments, and when one of the first `required` is missing.
  Bound(std::string callee, Arguments& arguments, std::initializer_list<const char*> parameters, std::size_t required);

  bool has(std::size_t index) const { return values_[index].has_value(); }
  bool is_given(std::size_t index) const { return has(index) && !values_[index]->is_none(); }  // and not None
  const Value& at(std::size_t index) const { return *values_[index]; }
  Value value(std::size_t index, Value fallback = {}) const { return has(index) ? at(index) : std::move(fallback); }
  bool flag(std::size_t index, bool fallback) const { return has(index) ? truth(at(index)) : fallback; }
  const std::string& text(std::size_t index) const;
  Int whole(std::size_t index) const;
  Int whole(std::size_t index, Int fallback) const { return is_given(index) ? whole(index) : fallback; }

 private:
  std::string parameter(std::size_t index) const;
  std::string callee_;
  std::vector<const char*> parameters_;
  std::vector<std::optional<Value>> values_;
};

// A position in, or length of, something that fits in memory: clamped to ±2^62.
std::int64_t clamp_index(Int value);

}  // namespace octavo::jinja
