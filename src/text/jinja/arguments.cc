#include "text/jinja/arguments.h"

#include <algorithm>

namespace octavo::jinja {

Bound::Bound(std::string callee, Arguments& arguments, std::initializer_list<const char*> parameters,
             std::size_t required)
    : callee_(std::move(callee)), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > parameters_.size())
    fail(callee_ + " takes at most " + std::to_string(parameters_.size()) + " arguments, but was given " +
         std::to_string(arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end()) fail(callee_ + " has no argument '" + name + "'");
    std::optional<Value>& place = values_[static_cast<std::size_t>(found - parameters_.begin())];
    if (place) fail(callee_ + " was given the argument '" + name + "' twice");
    place = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i]) fail(callee_ + " needs its argument '" + parameters_[i] + "'");
}

std::string Bound::parameter(std::size_t index) const {
  return "argument '" + std::string(parameters_[index]) + "' of " + callee_;
}

const std::string& Bound::text(std::size_t index) const {
  const Value& value = at(index);
  if (value.is_undefined()) fail(value.as<Undefined>().message);
  if (!value.is_string()) fail(parameter(index) + " must be a string, but is of type '" + type_name(value) + "'");
  return value.text();
}

Int Bound::whole(std::size_t index) const {
  const Value& value = at(index);
  if (value.is_undefined()) fail(value.as<Undefined>().message);
  if (!value.is_whole()) fail(parameter(index) + " must be a whole number, but is of type '" + type_name(value) + "'");
  return value.whole();
}

std::int64_t clamp_index(Int value) {
  constexpr Int kFar = Int{1} << 62;
  return static_cast<std::int64_t>(std::clamp(value, -kFar, kFar));
}

}  // namespace octavo::jinja
