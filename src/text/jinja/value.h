// Value: what a template computes with. Python's types, as far as chat templates show them.
//
// Strings, lists, tuples and dicts never change once made (the sandbox forbids it), so they are shared and their
// nesting is known and bounded. Namespaces and loops change; the interpreter owns them until the rendering ends, which
// breaks cycles. Strings are valid UTF-8 and count code points, as Python does. Integers have 128 bits and fail beyond
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"

namespace octavo::jinja {

__extension__ typedef __int128 Int;

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,
  generator,
  name_space,
  method,
  function,
  macro,
  loop,
  cycler,
  joiner,
};

// What lives on a rendering's heap. `depth` is the number of objects on the longest way down from here.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (budget) budget->give_back(num_bytes);
  }
  virtual void forget() {}   // drops what it refers to, if that can change: breaks cycles when a rendering ends
  Budget* budget = nullptr;  // none for the constants of a parsed template
  std::size_t num_bytes = 0;
  int depth = 1;
};

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : kind_(Kind::boolean) { number_.boolean = value; }
  explicit Value(Int value) : kind_(Kind::integer) { number_.integer = value; }
  explicit Value(double value) : kind_(Kind::real) { number_.real = value; }
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value integer(std::int64_t value) { return Value(static_cast<Int>(value)); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // bool is an int in Python
  bool is_number() const { return is_whole() || kind_ == Kind::real; }

  bool boolean() const { return number_.boolean; }
  double real() const { return number_.real; }
  Int whole() const { return kind_ == Kind::boolean ? Int{number_.boolean} : number_.integer; }
  double number() const { return kind_ == Kind::real ? number_.real : static_cast<double>(whole()); }

  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::string& text() const;
  const std::vector<Value>& items() const;  // of a list or tuple
  bool is_safe() const;                     // a string marked as free of HTML
  const std::shared_ptr<Object>& object() const { return object_; }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  Kind kind_ = Kind::none;
  union {
    bool boolean;
    Int integer;
    double real;
  } number_{.integer = 0};
  std::shared_ptr<Object> object_;
};

struct Undefined : Object {
  std::string message;
};

struct Text : Object {
  std::string bytes;
  std::size_t length = 0;  // code points
  bool safe = false;
  bool ascii() const { return length == bytes.size(); }
};

struct Sequence : Object {
  std::vector<Value> items;
  bool group = false;  // a tuple (grouper, list) of groupby, whose parts have names too
};

struct Dict : Object {
  std::vector<std::pair<Value, Value>> entries;              // in the order of insertion
  const Value* find(const Value& key, Budget& costs) const;  // fails on an unhashable key
  const Value* find(std::string_view key) const;
  void set(Value key, Value value, Budget& costs);  // only while it is being made

 private:
  std::size_t position(const Value& key, std::size_t hash, Budget& costs) const;
  std::unordered_multimap<std::size_t, std::size_t> index_;
};

struct Range : Object {
  Int start = 0, stop = 0, step = 1;
  std::size_t size() const;
  Value at(std::size_t index) const { return Value(start + static_cast<Int>(index) * step); }
};

struct View : Object {  // dict.keys(), values(), items()
  std::vector<Value> items;
  const char* name = "";
};

struct Generator : Object {
  std::function<bool(Value&)> next;
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;  // in the order of first assignment
  const Value* find(const std::string& name) const;
  void set(const std::string& name, Value value);
  void forget() override { attributes.clear(); }

 private:
  std::unordered_map<std::string, std::size_t> index_;
};

struct Method : Object {
  Value self;
  std::string name;
};

struct Cycler : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct Joiner : Object {
  Value separator;
  bool used = false;
};

constexpr int kMaxValueDepth = 200;

// Makes an object that counts against the budget; extra_bytes is what it holds outside of itself.
template <class T>
std::shared_ptr<T> make_object(Budget& budget, std::size_t extra_bytes) {
  const std::size_t num_bytes = sizeof(T) + 32 + extra_bytes;
  budget.take(num_bytes);
  auto object = std::make_shared<T>();
  object->budget = &budget;
  object->num_bytes = num_bytes;
  return object;
}

// Records that `object` holds `part`; fails when values nest too deep.
void hold(Object& object, const Value& part);

Value make_text(Budget& budget, std::string text, bool safe = false);
Value make_constant_text(std::string text);  // of a parsed template: free of any budget, shared by renderings
Value make_list(Budget& budget, std::vector<Value> items);
Value make_tuple(Budget& budget, std::vector<Value> items, bool group = false);
Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries);
Value make_undefined(Budget& budget, std::string message);
Value make_generator(Budget& budget, const Value& source, std::function<bool(Value&)> next);

bool truth(const Value& value);
bool equals(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);  // a < b; fails on types without an order
bool same(const Value& a, const Value& b);                  // Python's `is`
std::size_t hash(const Value& value, Budget& budget);
const char* type_name(const Value& value);  // "str", "dict", "NoneType"

// Walks any iterable once. A generator that is walked is used up, as in Python.
class Cursor {
 public:
  Cursor(Value source, Budget& budget);  // fails when `source` cannot be iterated
  bool next(Value& item);

 private:
  Value source_;
  Budget& budget_;
  std::size_t position_ = 0;
};

bool is_iterable(const Value& value);
std::vector<Value> to_items(const Value& iterable, Budget& budget);
bool find_length(const Value& value, std::size_t& length);  // len(), where there is one

}  // namespace octavo::jinja
