#include "text/jinja/code_points.h"
#include "text/jinja/loop.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

bool find_length(const Value& value, std::size_t& length) {
  switch (value.kind()) {
    case Kind::undefined:
      length = 0;
      return true;
    case Kind::string:
      length = value.as<Text>().length;
      return true;
    case Kind::list:
    case Kind::tuple:
      length = value.items().size();
      return true;
    case Kind::dict:
      length = value.as<Dict>().entries.size();
      return true;
    case Kind::range:
      length = value.as<Range>().size();
      return true;
    case Kind::view:
      length = value.as<View>().items.size();
      return true;
    case Kind::loop:
      length = value.as<Loop>().length();
      return true;
    default:
      return false;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::generator:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Value source, Budget& budget) : source_(std::move(source)), budget_(budget) {
  if (!is_iterable(source_)) fail(std::string("a value of type '") + type_name(source_) + "' cannot be iterated");
}

bool Cursor::next(Value& item) {
  budget_.step();
  if (source_.is_undefined()) return false;
  if (source_.is(Kind::generator)) return source_.as<Generator>().next(item);
  if (source_.is_string()) {
    const std::string& text = source_.text();
    if (position_ == text.size()) return false;
    const std::size_t begin = position_;
    decode_code_point(text, position_);
    item = make_text(budget_, text.substr(begin, position_ - begin));
    return true;
  }
  std::size_t length = 0;
  find_length(source_, length);
  if (position_ == length) return false;
  const std::size_t at = position_++;
  switch (source_.kind()) {
    case Kind::dict:
      item = source_.as<Dict>().entries[at].first;
      break;
    case Kind::range:
      item = source_.as<Range>().at(at);
      break;
    case Kind::view:
      item = source_.as<View>().items[at];
      break;
    default:
      item = source_.items()[at];
      break;
  }
  return true;
}

std::vector<Value> to_items(const Value& iterable, Budget& budget) {
  std::vector<Value> items;
  Cursor cursor(iterable, budget);
  for (Value item; cursor.next(item);) {
    if (items.size() == items.capacity()) budget.expect(2 * items.size() * sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace octavo::jinja
