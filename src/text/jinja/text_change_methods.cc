#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/render.h"
#include "text/jinja/replace.h"

namespace octavo::jinja {
namespace {

template <std::string (*kChange)(std::string_view)>
Value changed_text(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("a method of str", arguments, {}, 0);
  in.budget().expect(self.text().size() * 3);  // the most that a change of case makes of a text
  return in.text(kChange(self.text()), self.is_safe());
}

Value stripped(Interpreter& in, const Value& self, Arguments& arguments, bool left, bool right) {
  const Bound bound("str.strip", arguments, {"chars"}, 0);
  const std::string* characters = bound.is_given(0) ? &bound.text(0) : nullptr;
  in.budget().scan(self.text().size() * (characters ? std::max<std::size_t>(characters->size(), 1) : 1));
  return in.text(std::string(strip(self.text(), left, right, characters)), self.is_safe());
}

Value text_strip(Interpreter& in, const Value& self, Arguments& arguments) {
  return stripped(in, self, arguments, true, true);
}
Value text_lstrip(Interpreter& in, const Value& self, Arguments& arguments) {
  return stripped(in, self, arguments, true, false);
}
Value text_rstrip(Interpreter& in, const Value& self, Arguments& arguments) {
  return stripped(in, self, arguments, false, true);
}

Value text_removeprefix(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.removeprefix", arguments, {"prefix"}, 1);
  const std::string& part = bound.text(0);
  return self.text().starts_with(part) ? in.text(self.text().substr(part.size()), self.is_safe()) : self;
}

Value text_removesuffix(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.removesuffix", arguments, {"suffix"}, 1);
  const std::string& part = bound.text(0);
  return self.text().ends_with(part) ? in.text(self.text().substr(0, self.text().size() - part.size()), self.is_safe())
                                     : self;
}

Value text_replace(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t count = bound.has(2) ? clamp_index(bound.whole(2)) : -1;
  return in.text(replaced(self.text(), bound.text(0), bound.text(1), count, in.budget()), self.is_safe());
}

Value text_join(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.join", arguments, {"iterable"}, 1);
  TextBuilder out(in.budget());
  Cursor cursor(bound.at(0), in.budget());
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!item.is_string())
      fail(std::string("str.join needs strings, but found a value of type '") + type_name(item) + "'");
    if (!first) out.append(self.text());
    out.append(item.text());
  }
  return in.text(out.take(), self.is_safe());
}

Value text_format(Interpreter& in, const Value& self, Arguments& arguments) {
  return format_braces(self, arguments, in);
}

Value text_format_map(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.format_map", arguments, {"mapping"}, 1);
  if (!bound.at(0).is(Kind::dict)) fail("str.format_map needs a dict");
  Arguments fields;
  for (const auto& [key, value] : bound.at(0).as<Dict>().entries)
    if (key.is_string()) fields.named.emplace_back(key.text(), value);
  return format_braces(self, fields, in);
}

Value justified(Interpreter& in, const Value& self, Arguments& arguments, char side) {
  const Bound bound("a method of str that pads", arguments, {"width", "fillchar"}, 1);
  const std::string fill = bound.has(1) ? bound.text(1) : " ";
  if (count_code_points(fill) != 1) fail("a text can be padded only with one character");
  return in.text(padded_text(self.as<Text>(), clamp_index(bound.whole(0)), fill, side, in.budget()), self.is_safe());
}

Value text_ljust(Interpreter& in, const Value& self, Arguments& arguments) {
  return justified(in, self, arguments, 'l');
}
Value text_rjust(Interpreter& in, const Value& self, Arguments& arguments) {
  return justified(in, self, arguments, 'r');
}
Value text_center(Interpreter& in, const Value& self, Arguments& arguments) {
  return justified(in, self, arguments, 'c');
}

Value text_zfill(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::int64_t missing = clamp_index(bound.whole(0)) - static_cast<std::int64_t>(self.as<Text>().length);
  TextBuilder out(in.budget());
  if (has_sign) out.append(text.substr(0, 1));
  out.repeat("0", missing > 0 ? static_cast<std::size_t>(missing) : 0);
  out.append(std::string_view(text).substr(has_sign ? 1 : 0));
  return in.text(out.take(), self.is_safe());
}

constexpr MethodRow kTextChangeMethods[] = {
    {"capitalize", changed_text<to_capitalized>},
    {"casefold", changed_text<to_folded>},
    {"center", text_center},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format", text_format},
    {"format_map", text_format_map},
    {"join", text_join},
    {"ljust", text_ljust},
    {"lower", changed_text<to_lower>},
    {"lstrip", text_lstrip},
    {"maketrans", nullptr},
    {"removeprefix", text_removeprefix},
    {"removesuffix", text_removesuffix},
    {"replace", text_replace},
    {"rjust", text_rjust},
    {"rstrip", text_rstrip},
    {"strip", text_strip},
    {"swapcase", changed_text<to_swapped>},
    {"title", changed_text<to_title>},
    {"translate", nullptr},
    {"upper", changed_text<to_upper>},
    {"zfill", text_zfill},
};

}  // namespace

const MethodRow* find_text_change_method(std::string_view name) {
  const auto* row = std::lower_bound(std::begin(kTextChangeMethods), std::end(kTextChangeMethods), name,
                                     [](const MethodRow& r, std::string_view wanted) { return r.name < wanted; });
  return row != std::end(kTextChangeMethods) && row->name == name ? row : nullptr;
}

}  // namespace octavo::jinja
