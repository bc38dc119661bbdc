#include "text/jinja/lookup.h"

#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

Value missing(const Value& object, const Value& key, Budget& budget) {
  const std::string owner = std::string(type_name(object)) + " object";
  if (key.is_string())
    return make_undefined(budget, "'" + owner + "' has no attribute '" + key.text().substr(0, 80) + "'");
  return make_undefined(budget, owner + " has no element " + to_repr(key, budget).substr(0, 80));
}

bool is_dunder(const std::string& name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

Value element(const Value& object, std::size_t index, Budget& budget) {
  if (object.is(Kind::range)) return object.as<Range>().at(index);
  if (!object.is_string()) return object.items()[index];
  const Text& text = object.as<Text>();
  if (text.ascii()) return make_text(budget, text.bytes.substr(index, 1), text.safe);
  budget.scan(text.bytes.size());
  return make_text(budget, std::string(code_point_range(text.bytes, index, index + 1)), text.safe);
}

bool is_indexable(const Value& value) {
  return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::range);
}

std::optional<Value> loop_attribute(const Value& object, const std::string& name, Interpreter& in) {
  Loop& loop = object.as<Loop>();
  const auto length = [&] { return static_cast<std::int64_t>(loop.length()); };
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(loop.peek() == nullptr);
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - loop.index0);
  if (name == "revindex0") return Value::integer(length() - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.level + 1);
  if (name == "depth0") return Value::integer(loop.level);
  if (name == "previtem")
    return loop.index0 == 0 ? make_undefined(in.budget(), "there is no previous item") : loop.previous;
  if (name == "nextitem") {
    const Value* next = loop.peek();
    return next ? *next : make_undefined(in.budget(), "there is no next item");
  }
  return std::nullopt;
}

// Jinja looks at an object's Python attributes first: {'items': 1}.items is the method, {'items': 1}['items'] is 1.
std::optional<Value> python_attribute(const Value& object, const std::string& name, Interpreter& in) {
  if (std::optional<Value> own = own_attribute(object, name, in)) return own;
  switch (method_access(object, name)) {
    case MethodAccess::none:
      break;
    case MethodAccess::refused:
      return make_undefined(in.budget(),
                            "'" + name + "' of a " + type_name(object) + " is refused: templates change no values");
    case MethodAccess::allowed:
      return make_method(in.budget(), object, name);
  }
  if (is_dunder(name)) return make_undefined(in.budget(), "the attribute '" + name + "' is refused");
  return std::nullopt;
}

struct Bounds {
  std::int64_t start, stop, step;
};

void check_bound(const Value& value) {
  if (value.is_undefined()) fail(value.as<Undefined>().message);
  if (!value.is_none() && !value.is_whole())
    fail(std::string("the bounds of a slice must be whole numbers, but one is of type '") + type_name(value) + "'");
}

Bounds resolve(const Value& start, const Value& stop, const Value& step, std::int64_t length) {
  Bounds bounds{0, 0, step.is_none() ? 1 : clamp_index(step.whole())};
  if (bounds.step == 0) fail("the step of a slice must not be zero");
  const std::int64_t low = bounds.step > 0 ? 0 : -1;
  const std::int64_t high = bounds.step > 0 ? length : length - 1;
  const auto place = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    const std::int64_t index = clamp_index(value.whole());
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  bounds.start = place(start, bounds.step > 0 ? low : high);
  bounds.stop = place(stop, bounds.step > 0 ? high : low);
  return bounds;
}

Value slice_text(const Text& text, const Bounds& bounds, Budget& budget) {
  budget.scan(text.bytes.size());
  if (bounds.step == 1) {
    const auto begin = static_cast<std::size_t>(bounds.start), end = static_cast<std::size_t>(bounds.stop);
    if (text.ascii()) return make_text(budget, begin < end ? text.bytes.substr(begin, end - begin) : "", text.safe);
    return make_text(budget, std::string(code_point_range(text.bytes, begin, end)), text.safe);
  }
  const Reservation held(budget, text.bytes.size() * sizeof(std::size_t));
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.bytes.size(); decode_code_point(text.bytes, at)) offsets.push_back(at);
  offsets.push_back(text.bytes.size());
  std::string out;
  for (std::int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    const auto at = static_cast<std::size_t>(i);
    out.append(text.bytes, offsets[at], offsets[at + 1] - offsets[at]);
  }
  return make_text(budget, std::move(out), text.safe);
}

Value slice_range(const Range& range, const Bounds& bounds, Budget& budget) {
  auto part = make_object<Range>(budget, 0);
  part->start = range.start + bounds.start * range.step;
  part->stop = range.start + bounds.stop * range.step;
  part->step = range.step * bounds.step;
  return Value(Kind::range, std::move(part));
}

}  // namespace

std::optional<Value> own_attribute(const Value& object, const std::string& name, Interpreter& in) {
  if (object.is(Kind::loop)) return loop_attribute(object, name, in);
  if (object.is(Kind::name_space)) {
    const Value* found = object.as<Namespace>().find(name);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (object.is(Kind::macro) && name == "name") return in.text(object.as<Macro>().statement->name);
  if (object.is(Kind::cycler) && name == "current") return object.as<Cycler>().items[object.as<Cycler>().position];
  if (object.is(Kind::tuple) && object.as<Sequence>().group && (name == "grouper" || name == "list"))
    return object.items()[name == "grouper" ? 0 : 1];
  return std::nullopt;
}

Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  if (object.is_undefined()) fail(object.as<Undefined>().message);
  if (!is_indexable(object)) fail(std::string("a value of type '") + type_name(object) + "' has no slices");
  for (const Value* bound : {&start, &stop, &step}) check_bound(*bound);
  std::size_t length = 0;
  find_length(object, length);
  const Bounds bounds = resolve(start, stop, step, static_cast<std::int64_t>(length));
  if (object.is_string()) return slice_text(object.as<Text>(), bounds, budget);
  if (object.is(Kind::range)) return slice_range(object.as<Range>(), bounds, budget);
  std::vector<Value> items;
  for (std::int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    budget.step();
    items.push_back(object.items()[static_cast<std::size_t>(i)]);
  }
  return object.is(Kind::list) ? make_list(budget, std::move(items)) : make_tuple(budget, std::move(items));
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail(object.as<Undefined>().message);
  if (std::optional<Value> found = python_attribute(object, name, *this)) return *std::move(found);
  if (object.is(Kind::dict))
    if (const Value* value = object.as<Dict>().find(name)) return *value;
  return make_undefined(budget_, std::string("'") + type_name(object) + " object' has no attribute '" + name + "'");
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(object.as<Undefined>().message);
  if (object.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return missing(object, key, budget_);
    if (const Value* value = object.as<Dict>().find(key, budget_)) return *value;
  } else if (is_indexable(object) && key.is_whole()) {
    std::size_t length = 0;
    find_length(object, length);
    const std::int64_t index = clamp_index(key.whole());
    const std::int64_t at = index < 0 ? index + static_cast<std::int64_t>(length) : index;
    if (at < 0 || at >= static_cast<std::int64_t>(length)) return missing(object, key, budget_);
    return element(object, static_cast<std::size_t>(at), budget_);
  }
  if (key.is_string())
    if (std::optional<Value> found = python_attribute(object, key.text(), *this)) return *std::move(found);
  return missing(object, key, budget_);
}

}  // namespace octavo::jinja
