#include "text/jinja/value.h"

#include <cmath>

#include "text/jinja/code_points.h"

namespace octavo::jinja {
namespace {

constexpr std::size_t kNoPosition = static_cast<std::size_t>(-1);
constexpr std::size_t kSmallDict = 8;  // below, comparing is cheaper than hashing

std::size_t bytes_of(const std::vector<Value>& items) { return items.size() * sizeof(Value); }

Value make_sequence(Budget& budget, Kind kind, std::vector<Value> items, bool group) {
  auto sequence = make_object<Sequence>(budget, bytes_of(items));
  for (const Value& item : items) hold(*sequence, item);
  sequence->items = std::move(items);
  sequence->group = group;
  return Value(kind, std::move(sequence));
}

bool same_whole(Int whole, double real) {
  return static_cast<double>(whole) == real && std::fabs(real) < 1e38 && static_cast<Int>(real) == whole;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
  if (a.is_whole()) return same_whole(a.whole(), b.real());
  if (b.is_whole()) return same_whole(b.whole(), a.real());
  return a.real() == b.real();
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key, budget);
    if (!other || !equals(value, *other, budget)) return false;
  }
  return true;
}

bool less_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!equals(a[i], b[i], budget)) return less(a[i], b[i], budget);
  return a.size() < b.size();
}

}  // namespace

const std::string& Value::text() const { return as<Text>().bytes; }
const std::vector<Value>& Value::items() const { return as<Sequence>().items; }
bool Value::is_safe() const { return is_string() && as<Text>().safe; }

void hold(Object& object, const Value& part) {
  if (part.depth() < object.depth) return;
  object.depth = part.depth() + 1;
  if (object.depth > kMaxValueDepth)
    fail("values are nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
}

Value make_text(Budget& budget, std::string text, bool safe) {
  auto object = make_object<Text>(budget, text.size());
  object->length = count_code_points(text);
  object->bytes = std::move(text);
  object->safe = safe;
  return Value(Kind::string, std::move(object));
}

Value make_constant_text(std::string text) {
  auto object = std::make_shared<Text>();
  object->length = count_code_points(text);
  object->bytes = std::move(text);
  return Value(Kind::string, std::move(object));
}

Value make_list(Budget& budget, std::vector<Value> items) {
  return make_sequence(budget, Kind::list, std::move(items), false);
}
Value make_tuple(Budget& budget, std::vector<Value> items, bool group) {
  return make_sequence(budget, Kind::tuple, std::move(items), group);
}

Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries) {
  auto dict = make_object<Dict>(budget, entries.size() * (2 * sizeof(Value) + 48));
  dict->entries.reserve(entries.size());
  for (auto& [key, value] : entries) {
    hold(*dict, key);
    hold(*dict, value);
    dict->set(std::move(key), std::move(value), budget);
  }
  return Value(Kind::dict, std::move(dict));
}

Value make_undefined(Budget& budget, std::string message) {
  auto object = make_object<Undefined>(budget, message.size());
  object->message = std::move(message);
  return Value(Kind::undefined, std::move(object));
}

Value make_generator(Budget& budget, const Value& source, std::function<bool(Value&)> next) {
  auto generator = make_object<Generator>(budget, 128);
  hold(*generator, source);
  generator->next = std::move(next);
  return Value(Kind::generator, std::move(generator));
}

std::size_t Dict::position(const Value& key, std::size_t key_hash, Budget& costs) const {
  if (entries.size() <= kSmallDict) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (equals(entries[i].first, key, costs)) return i;
    return kNoPosition;
  }
  const auto [first, last] = index_.equal_range(key_hash);
  for (auto it = first; it != last; ++it)
    if (equals(entries[it->second].first, key, costs)) return it->second;
  return kNoPosition;
}

const Value* Dict::find(const Value& key, Budget& costs) const {
  const std::size_t at = position(key, hash(key, costs), costs);
  return at == kNoPosition ? nullptr : &entries[at].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto matches = [&](std::size_t i) { return entries[i].first.is_string() && entries[i].first.text() == key; };
  if (entries.size() <= kSmallDict) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (matches(i)) return &entries[i].second;
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto it = first; it != last; ++it)
    if (matches(it->second)) return &entries[it->second].second;
  return nullptr;
}

void Dict::set(Value key, Value value, Budget& costs) {
  const std::size_t key_hash = hash(key, costs);
  if (const std::size_t at = position(key, key_hash, costs); at != kNoPosition) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() == kSmallDict + 1) {
    for (std::size_t i = 0; i < entries.size(); ++i) index_.emplace(hash(entries[i].first, costs), i);
  } else if (entries.size() > kSmallDict) {
    index_.emplace(key_hash, entries.size() - 1);
  }
}

const Value* Namespace::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() || attributes.empty() ? nullptr : &attributes[found->second].second;
}

void Namespace::set(const std::string& name, Value value) {
  const auto [place, is_new] = index_.emplace(name, attributes.size());
  if (!is_new) {
    attributes[place->second].second = std::move(value);
    return;
  }
  constexpr std::size_t kNodeBytes = 192;
  if (budget) budget->take(kNodeBytes);
  num_bytes += kNodeBytes;
  attributes.emplace_back(name, std::move(value));
}

std::size_t Range::size() const {
  const Int span = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  return span <= 0 ? 0 : static_cast<std::size_t>((span + stride - 1) / stride);
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.whole() != 0;
    case Kind::real:
      return value.real() != 0;
    default:
      break;
  }
  std::size_t length = 1;
  find_length(value, length);
  return length != 0;
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      budget.scan(a.text().size());
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple:
      if (a.object() == b.object()) return true;
      if (a.items().size() != b.items().size()) return false;
      for (std::size_t i = 0; i < a.items().size(); ++i)
        if (!equals(a.items()[i], b.items()[i], budget)) return false;
      return true;
    case Kind::dict:
      return a.object() == b.object() || equal_dicts(a.as<Dict>(), b.as<Dict>(), budget);
    case Kind::range: {
      const Range &x = a.as<Range>(), &y = b.as<Range>();
      const std::size_t size = x.size();
      return size == y.size() && (size == 0 || (x.start == y.start && (size == 1 || x.step == y.step)));
    }
    case Kind::method:
      return a.as<Method>().name == b.as<Method>().name && same(a.as<Method>().self, b.as<Method>().self);
    default:
      return a.object() == b.object();
  }
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number())
    return a.is_whole() && b.is_whole() ? a.whole() < b.whole() : a.number() < b.number();
  for (const Value* side : {&a, &b})
    if (side->is_undefined()) fail(side->as<Undefined>().message);
  if (a.is_string() && b.is_string()) {
    budget.scan(a.text().size());
    return a.text() < b.text();  // the order of UTF-8 bytes is the order of code points
  }
  if (a.kind() == b.kind() && (a.is(Kind::list) || a.is(Kind::tuple))) return less_items(a.items(), b.items(), budget);
  fail(std::string("a value of type '") + type_name(a) + "' has no order with one of type '" + type_name(b) + "'");
}

bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return a.boolean() == b.boolean();
    case Kind::integer:
      return a.whole() == b.whole();
    case Kind::real:
      return a.real() == b.real();
    case Kind::string:
      return a.object() == b.object() || a.text() == b.text();
    default:
      return a.object() == b.object();
  }
}

std::size_t hash(const Value& value, Budget& budget) {
  budget.step();
  const auto hash_whole = [](Int whole) { return std::hash<std::uint64_t>{}(static_cast<std::uint64_t>(whole)); };
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return 1;
    case Kind::boolean:
    case Kind::integer:
      return hash_whole(value.whole());
    case Kind::real: {
      const double real = value.real();
      if (std::fabs(real) < 1e38 && same_whole(static_cast<Int>(real), real)) return hash_whole(static_cast<Int>(real));
      return std::hash<double>{}(real);
    }
    case Kind::string:
      budget.scan(value.text().size());
      return std::hash<std::string_view>{}(value.text());
    case Kind::tuple: {
      std::size_t all = 7;
      for (const Value& item : value.items()) all = all * 1000003 + hash(item, budget);
      return all;
    }
    case Kind::list:
    case Kind::dict:
      fail(std::string("a value of type '") + type_name(value) + "' cannot be a key");
    default:
      return std::hash<const void*>{}(value.object().get());
  }
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return value.as<View>().name;
    case Kind::generator:
      return "generator";
    case Kind::name_space:
      return "namespace";
    case Kind::method:
      return "method";
    case Kind::function:
      return "function";
    case Kind::macro:
      return "macro";
    case Kind::loop:
      return "loop";
    case Kind::cycler:
      return "cycler";
    case Kind::joiner:
      return "joiner";
  }
  return "value";
}

}  // namespace octavo::jinja
