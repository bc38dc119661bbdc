#include "text/jinja/methods.h"

#include <algorithm>

#include "text/jinja/interpreter.h"

namespace octavo::jinja {
namespace {

Value make_view(Interpreter& in, const Value& self, Arguments& arguments, const char* name, int part) {
  const Bound bound(std::string("dict.") + (name + 5), arguments, {}, 0);
  const auto& entries = self.as<Dict>().entries;
  auto view = make_object<View>(in.budget(), entries.size() * sizeof(Value));
  view->name = name;
  view->items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (part == 2)
      view->items.push_back(make_tuple(in.budget(), {key, value}));
    else
      view->items.push_back(part == 0 ? key : value);
    hold(*view, view->items.back());
  }
  return Value(Kind::view, std::move(view));
}

Value dict_keys(Interpreter& in, const Value& self, Arguments& arguments) {
  return make_view(in, self, arguments, "dict_keys", 0);
}
Value dict_values(Interpreter& in, const Value& self, Arguments& arguments) {
  return make_view(in, self, arguments, "dict_values", 1);
}
Value dict_items(Interpreter& in, const Value& self, Arguments& arguments) {
  return make_view(in, self, arguments, "dict_items", 2);
}

Value dict_get(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("dict.get", arguments, {"key", "default"}, 1);
  const Value* found = self.as<Dict>().find(bound.at(0), in.budget());
  return found ? *found : bound.value(1);
}

Value self_copy(Interpreter&, const Value& self, Arguments& arguments) {
  const Bound bound("copy", arguments, {}, 0);
  return self;  // values never change, so a copy is the value
}

Value sequence_count(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  Cursor cursor(self, in.budget());
  for (Value item; cursor.next(item);) count += equals(item, bound.at(0), in.budget());
  return Value::integer(count);
}

Value sequence_index(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("index", arguments, {"value"}, 1);
  std::int64_t index = 0;
  Cursor cursor(self, in.budget());
  for (Value item; cursor.next(item); ++index)
    if (equals(item, bound.at(0), in.budget())) return Value::integer(index);
  fail("index() does not find the value");
}

Value loop_cycle(Interpreter&, const Value& self, Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty())
    fail("loop.cycle needs one value or more, without names");
  return arguments.positional[static_cast<std::size_t>(self.as<Loop>().index0) % arguments.positional.size()];
}

Value loop_changed(Interpreter& in, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) fail("loop.changed takes values without names");
  Loop& loop = self.as<Loop>();
  bool changed = !loop.last_changed || loop.last_changed->size() != arguments.positional.size();
  for (std::size_t i = 0; !changed && i < arguments.positional.size(); ++i)
    changed = !equals((*loop.last_changed)[i], arguments.positional[i], in.budget());
  if (!changed) return Value(false);
  if (!loop.last_changed) in.keep(self.object());
  loop.last_changed = std::move(arguments.positional);
  return Value(true);
}

Value cycler_next(Interpreter&, const Value& self, Arguments& arguments) {
  const Bound bound("cycler.next", arguments, {}, 0);
  Cycler& cycler = self.as<Cycler>();
  const std::size_t at = cycler.position;
  cycler.position = (at + 1) % cycler.items.size();
  return cycler.items[at];
}

Value cycler_reset(Interpreter&, const Value& self, Arguments& arguments) {
  const Bound bound("cycler.reset", arguments, {}, 0);
  self.as<Cycler>().position = 0;
  return {};
}

constexpr bool kRefused = true;
constexpr MethodRow kDictMethods[] = {
    {"clear", nullptr, kRefused},
    {"copy", self_copy},
    {"fromkeys", nullptr},
    {"get", dict_get},
    {"items", dict_items},
    {"keys", dict_keys},
    {"pop", nullptr, kRefused},
    {"popitem", nullptr, kRefused},
    {"setdefault", nullptr, kRefused},
    {"update", nullptr, kRefused},
    {"values", dict_values},
};
constexpr MethodRow kListMethods[] = {
    {"append", nullptr, kRefused},  {"clear", nullptr, kRefused},  {"copy", self_copy},
    {"count", sequence_count},      {"extend", nullptr, kRefused}, {"index", sequence_index},
    {"insert", nullptr, kRefused},  {"pop", nullptr, kRefused},    {"remove", nullptr, kRefused},
    {"reverse", nullptr, kRefused}, {"sort", nullptr, kRefused},
};
constexpr MethodRow kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr MethodRow kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr MethodRow kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

template <std::size_t kSize>
const MethodRow* find(const MethodRow (&rows)[kSize], std::string_view name) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const MethodRow& r) { return r.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

const MethodRow* find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string: {
      const MethodRow* row = find_text_method(name);
      return row ? row : find_text_change_method(name);
    }
    case Kind::dict:
      return find(kDictMethods, name);
    case Kind::list:
      return find(kListMethods, name);
    case Kind::tuple:
    case Kind::range:
      return find(kTupleMethods, name);
    case Kind::loop:
      return find(kLoopMethods, name);
    case Kind::cycler:
      return find(kCyclerMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace

MethodAccess method_access(const Value& self, std::string_view name) {
  const MethodRow* row = find_method(self, name);
  if (!row) return MethodAccess::none;
  return row->refused ? MethodAccess::refused : MethodAccess::allowed;
}

bool is_callable_method(const Value& self, std::string_view name) {
  const MethodRow* row = find_method(self, name);
  return row && row->function && !(self.is(Kind::tuple) && self.as<Sequence>().group);
}

Value call_method(Interpreter& in, const Value& self, const std::string& name, Arguments& arguments) {
  const MethodRow* row = find_method(self, name);
  if (!row || !row->function) fail("the method '" + name + "' of '" + type_name(self) + "' is not supported");
  return row->function(in, self, arguments);
}

Value make_method(Budget& budget, const Value& self, const std::string& name) {
  auto method = make_object<Method>(budget, name.size());
  hold(*method, self);
  method->self = self;
  method->name = name;
  return Value(Kind::method, std::move(method));
}

}  // namespace octavo::jinja
