// Looking into values: Python's slices, and the attributes that are no methods.
//
// Interpreter::attribute and Interpreter::item, defined beside these, follow the sandbox: an attribute of Python's type
// comes before a key when written with a dot, after it when written with brackets; what is not there is undefined.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

// object[start:stop:step]; a bound is None when it is left out. Fails on what cannot be sliced.
Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Budget& budget);

// The attribute `name` that objects of ours have: loop.index, a namespace's, a macro's name. nullopt: none.
std::optional<Value> own_attribute(const Value& object, const std::string& name, Interpreter& in);

}  // namespace octavo::jinja
