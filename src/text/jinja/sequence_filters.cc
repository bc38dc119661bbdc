#include <algorithm>
#include <memory>

#include "text/jinja/attribute_path.h"
#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/registry.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

Value generator_of(Interpreter& in, std::vector<Value> items) {
  const Value list = make_list(in.budget(), std::move(items));
  auto cursor = std::make_shared<Cursor>(list, in.budget());
  return make_generator(in.budget(), list, [cursor](Value& item) { return cursor->next(item); });
}

Value length(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'length'", arguments, {}, 0);
  std::size_t count = 0;
  if (!find_length(input, count)) fail(std::string("a value of type '") + type_name(input) + "' has no length");
  return Value::integer(static_cast<std::int64_t>(count));
}

Value first(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'first'", arguments, {}, 0);
  Value item;
  if (Cursor(input, in.budget()).next(item)) return item;
  return make_undefined(in.budget(), "there is no first element, because there is none");
}

Value last(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'last'", arguments, {}, 0);
  if (input.is(Kind::generator)) fail("filter 'last' needs a sequence: put filter 'list' before it");
  std::vector<Value> items = to_items(input, in.budget());
  if (!items.empty()) return std::move(items.back());
  return make_undefined(in.budget(), "there is no last element, because there is none");
}

Value list(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'list'", arguments, {}, 0);
  return make_list(in.budget(), to_items(input, in.budget()));
}

Value join(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'join'", arguments, {"d", "attribute"}, 0);
  const std::string separator = bound.has(0) ? to_text(bound.at(0), in.budget()) : "";
  const AttributePath path(bound.value(1));
  TextBuilder out(in.budget());
  Cursor cursor(input, in.budget());
  bool is_first = true;
  for (Value item; cursor.next(item); is_first = false) {
    if (!is_first) out.append(separator);
    write_text(out, path.of(item, in), in.budget());
  }
  return in.text(out.take());
}

Value reverse(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'reverse'", arguments, {}, 0);
  if (input.is_string()) {
    const std::string& text = input.text();
    std::string out;
    for (std::size_t end = text.size(); end > 0;) {
      std::size_t begin = end - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      out.append(text, begin, end - begin);
      end = begin;
    }
    return in.text(std::move(out), input.is_safe());
  }
  std::vector<Value> items = to_items(input, in.budget());
  std::reverse(items.begin(), items.end());
  return input.is(Kind::generator) ? make_list(in.budget(), std::move(items)) : generator_of(in, std::move(items));
}

// Elements with the keys that they are sorted by. Several keys compare as a list does, which asks for equality first.
struct Keyed {
  std::vector<Value> keys;
  Value value;
};

bool before(const Keyed& a, const Keyed& b, bool as_list, Budget& budget) {
  if (!as_list) return less(a.keys[0], b.keys[0], budget);
  for (std::size_t i = 0; i < a.keys.size(); ++i)
    if (!equals(a.keys[i], b.keys[i], budget)) return less(a.keys[i], b.keys[i], budget);
  return false;
}

void sort_keyed(std::vector<Keyed>& all, bool as_list, bool descending, Budget& budget) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return descending ? before(b, a, as_list, budget) : before(a, b, as_list, budget);
  });
}

Value values_of(Interpreter& in, std::vector<Keyed> all) {
  std::vector<Value> items;
  items.reserve(all.size());
  for (Keyed& keyed : all) items.push_back(std::move(keyed.value));
  return make_list(in.budget(), std::move(items));
}

Value sort(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'sort'", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const bool case_sensitive = bound.flag(1, false);
  const std::vector<AttributePath> paths = AttributePath::several(bound.value(2));
  std::vector<Keyed> all;
  Reservation held(in.budget(), 0);
  Cursor cursor(input, in.budget());
  for (Value item; cursor.next(item);) {
    held.grow(sizeof(Keyed) + paths.size() * sizeof(Value));
    Keyed keyed;
    for (const AttributePath& path : paths) {
      const Value key = path.of(item, in);
      keyed.keys.push_back(case_sensitive ? key : without_case(key, in));
    }
    keyed.value = std::move(item);
    all.push_back(std::move(keyed));
  }
  sort_keyed(all, true, bound.flag(0, false), in.budget());
  return values_of(in, std::move(all));
}

Value dictsort(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'dictsort'", arguments, {"case_sensitive", "by", "reverse"}, 0);
  if (input.is_undefined()) fail(input.as<Undefined>().message);
  if (!input.is(Kind::dict))
    fail(std::string("filter 'dictsort' needs a dict, not a value of type '") + type_name(input) + "'");
  const std::string by = bound.has(1) ? bound.text(1) : "key";
  if (by != "key" && by != "value") fail("argument 'by' of filter 'dictsort' must be 'key' or 'value'");
  std::vector<Keyed> all;
  const Reservation held(in.budget(), input.as<Dict>().entries.size() * (sizeof(Keyed) + sizeof(Value)));
  for (const auto& [key, value] : input.as<Dict>().entries) {
    const Value& chosen = by == "key" ? key : value;
    Keyed keyed;
    keyed.keys.push_back(bound.flag(0, false) ? chosen : without_case(chosen, in));
    keyed.value = make_tuple(in.budget(), {key, value});
    all.push_back(std::move(keyed));
  }
  sort_keyed(all, false, bound.flag(2, false), in.budget());
  return values_of(in, std::move(all));
}

Value groupby(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'groupby'", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(bound.at(0));
  const bool case_sensitive = bound.flag(2, false);
  std::vector<Keyed> all;
  Reservation held(in.budget(), 0);
  Cursor cursor(input, in.budget());
  for (Value item; cursor.next(item);) {
    held.grow(sizeof(Keyed) + sizeof(Value));
    const Value key = path.of(item, in, bound.value(1));
    all.push_back({{case_sensitive ? key : without_case(key, in)}, std::move(item)});
  }
  sort_keyed(all, false, false, in.budget());
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    std::vector<Value> members;
    for (end = begin; end < all.size() && equals(all[end].keys[0], all[begin].keys[0], in.budget()); ++end)
      members.push_back(all[end].value);
    if (members.empty()) members.push_back(all[end++].value);  // NaN, which does not equal itself
    const Value grouper = path.of(members[0], in, bound.value(1));
    groups.push_back(make_tuple(in.budget(), {grouper, make_list(in.budget(), std::move(members))}, true));
  }
  return make_list(in.budget(), std::move(groups));
}

Value unique(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'unique'", arguments, {"case_sensitive", "attribute"}, 0);
  const AttributePath path(bound.value(1));
  const auto seen = make_object<Dict>(in.budget(), 0);
  Reservation held(in.budget(), 0);
  std::vector<Value> items;
  Cursor cursor(input, in.budget());
  for (Value item; cursor.next(item);) {
    Value key = path.of(item, in);
    if (!bound.flag(0, false)) key = without_case(key, in);
    if (seen->find(key, in.budget())) continue;
    held.grow(4 * sizeof(Value));
    seen->set(std::move(key), Value(), in.budget());
    items.push_back(std::move(item));
  }
  return generator_of(in, std::move(items));
}

Value items_of_dict(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'items'", arguments, {}, 0);
  std::vector<Value> pairs;
  if (input.is(Kind::dict)) {
    for (const auto& [key, value] : input.as<Dict>().entries) pairs.push_back(make_tuple(in.budget(), {key, value}));
  } else if (!input.is_undefined()) {
    fail(std::string("filter 'items' needs a dict, not a value of type '") + type_name(input) + "'");
  }
  return generator_of(in, std::move(pairs));
}

Value batch(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'batch'", arguments, {"linecount", "fill_with"}, 1);
  const Int size = bound.whole(0);
  std::vector<Value> batches, current;
  Cursor cursor(input, in.budget());
  for (Value item; cursor.next(item);) {
    if (static_cast<Int>(current.size()) == size) batches.push_back(make_list(in.budget(), std::exchange(current, {})));
    current.push_back(std::move(item));
  }
  if (!current.empty() && bound.is_given(1)) {
    for (; static_cast<Int>(current.size()) < size; current.push_back(bound.at(1))) {
      in.budget().step();
      in.budget().expect(current.size() * sizeof(Value));
    }
  }
  if (!current.empty()) batches.push_back(make_list(in.budget(), std::move(current)));
  return generator_of(in, std::move(batches));
}

Value slice_filter(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'slice'", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> all = to_items(input, in.budget());
  const std::int64_t slices = clamp_index(bound.whole(0));
  if (slices == 0) fail("filter 'slice' needs a number of slices that is not zero");
  const auto size = static_cast<std::int64_t>(all.size());
  std::vector<Value> out;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    in.budget().step();
    const bool longer = i < size % slices;
    const std::int64_t end = begin + size / slices + (longer ? 1 : 0);
    std::vector<Value> part(all.begin() + begin, all.begin() + end);
    if (bound.is_given(1) && !longer) part.push_back(bound.at(1));
    out.push_back(make_list(in.budget(), std::move(part)));
    begin = end;
  }
  return generator_of(in, std::move(out));
}

Value extreme(Interpreter& in, const Value& input, Arguments& arguments, bool largest) {
  const Bound bound(largest ? "filter 'max'" : "filter 'min'", arguments, {"case_sensitive", "attribute"}, 0);
  const AttributePath path(bound.value(1));
  const auto key_of = [&](const Value& item) {
    const Value key = path.of(item, in);
    return bound.flag(0, false) ? key : without_case(key, in);
  };
  Cursor cursor(input, in.budget());
  Value best;
  if (!cursor.next(best))
    return make_undefined(in.budget(), "there is no smallest or largest element, because there is none");
  Value best_key = key_of(best);
  for (Value item; cursor.next(item);) {
    Value key = key_of(item);
    if (!(largest ? less(best_key, key, in.budget()) : less(key, best_key, in.budget()))) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best;
}

Value min(Interpreter& in, const Value& input, Arguments& arguments) { return extreme(in, input, arguments, false); }
Value max(Interpreter& in, const Value& input, Arguments& arguments) { return extreme(in, input, arguments, true); }

Value default_value(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'default'", arguments, {"default_value", "boolean"}, 0);
  if (!input.is_undefined() && !(bound.flag(1, false) && !truth(input))) return input;
  return bound.has(0) ? bound.at(0) : in.text("");
}

Value attr(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'attr'", arguments, {"name"}, 1);
  const std::string& name = bound.text(0);
  if (input.is(Kind::dict) && method_access(input, name) == MethodAccess::none)
    return make_undefined(in.budget(), "'dict object' has no attribute '" + name + "'");
  return in.attribute(input, name);
}

constexpr FilterRow kSequenceFilters[] = {
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items_of_dict},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"max", max},
    {"min", min},
    {"reverse", reverse},
    {"slice", slice_filter},
    {"sort", sort},
    {"unique", unique},
};

}  // namespace

std::span<const FilterRow> sequence_filters() { return kSequenceFilters; }

}  // namespace octavo::jinja
