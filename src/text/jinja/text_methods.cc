#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/split.h"

namespace octavo::jinja {
namespace {

// The part of a text that find(sub, start, end) and its like look at.
struct Window {
  std::string_view text;  // the part
  std::size_t first = 0;  // code points before it
  bool valid = true;      // start is not behind the end
};

Window window_of(Interpreter& in, const Value& self, const Bound& bound) {
  const Text& text = self.as<Text>();
  in.budget().scan(text.bytes.size());
  const auto length = static_cast<std::int64_t>(text.length);
  const auto place = [&](std::size_t i, std::int64_t fallback) {
    const std::int64_t at = bound.is_given(i) ? clamp_index(bound.whole(i)) : fallback;
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = place(1, 0), stop = std::min(place(2, length), length);
  if (start > length || start > stop) return {{}, 0, false};
  const auto first = static_cast<std::size_t>(start), last = static_cast<std::size_t>(stop);
  const std::string_view part = text.ascii() ? std::string_view(text.bytes).substr(first, last - first)
                                             : code_point_range(text.bytes, first, last);
  return {part, first, true};
}

std::int64_t find_in(Interpreter& in, const Value& self, Arguments& arguments, const char* callee, bool from_right) {
  const Bound bound(callee, arguments, {"sub", "start", "end"}, 1);
  const Window window = window_of(in, self, bound);
  if (!window.valid) return -1;
  const std::string& part = bound.text(0);
  const std::size_t found = from_right ? find_text_right(window.text, part, in.budget()) : find_text(window.text, part);
  if (found == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(window.first + count_code_points(window.text.substr(0, found)));
}

Value text_find(Interpreter& in, const Value& self, Arguments& arguments) {
  return Value::integer(find_in(in, self, arguments, "str.find", false));
}
Value text_rfind(Interpreter& in, const Value& self, Arguments& arguments) {
  return Value::integer(find_in(in, self, arguments, "str.rfind", true));
}
Value text_index(Interpreter& in, const Value& self, Arguments& arguments) {
  const std::int64_t at = find_in(in, self, arguments, "str.index", false);
  if (at < 0) fail("index() does not find the text");
  return Value::integer(at);
}
Value text_rindex(Interpreter& in, const Value& self, Arguments& arguments) {
  const std::int64_t at = find_in(in, self, arguments, "str.rindex", true);
  if (at < 0) fail("rindex() does not find the text");
  return Value::integer(at);
}

Value text_count(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.count", arguments, {"sub", "start", "end"}, 1);
  const Window window = window_of(in, self, bound);
  const std::string& part = bound.text(0);
  if (!window.valid) return Value::integer(0);
  if (part.empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(window.text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_text(window.text, part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return Value::integer(count);
}

Value affix(Interpreter& in, const Value& self, Arguments& arguments, const char* callee, bool at_start) {
  const Bound bound(callee, arguments, {at_start ? "prefix" : "suffix", "start", "end"}, 1);
  const Window window = window_of(in, self, bound);
  const auto fits = [&](const std::string& part) {
    return window.valid && (at_start ? window.text.starts_with(part) : window.text.ends_with(part));
  };
  if (!bound.at(0).is(Kind::tuple)) return Value(fits(bound.text(0)));
  for (const Value& part : bound.at(0).items()) {
    if (!part.is_string()) fail(std::string(callee) + " needs strings");
    in.budget().scan(part.text().size());
    if (fits(part.text())) return Value(true);
  }
  return Value(false);
}

Value text_startswith(Interpreter& in, const Value& self, Arguments& arguments) {
  return affix(in, self, arguments, "str.startswith", true);
}
Value text_endswith(Interpreter& in, const Value& self, Arguments& arguments) {
  return affix(in, self, arguments, "str.endswith", false);
}

Value list_of(Interpreter& in, const Pieces& pieces, bool safe) {
  std::vector<Value> items;
  const Reservation held(in.budget(), pieces.all().size() * sizeof(Value));
  items.reserve(pieces.all().size());
  for (const std::string_view piece : pieces.all()) items.push_back(in.text(std::string(piece), safe));
  return make_list(in.budget(), std::move(items));
}

Value split(Interpreter& in, const Value& self, Arguments& arguments, bool from_right) {
  const Bound bound(from_right ? "str.rsplit" : "str.split", arguments, {"sep", "maxsplit"}, 0);
  const std::string* separator = bound.is_given(0) ? &bound.text(0) : nullptr;
  const std::int64_t max_splits = bound.has(1) ? clamp_index(bound.whole(1)) : -1;
  const auto cut = from_right ? split_text_right : split_text;
  return list_of(in, cut(self.text(), separator, max_splits, in.budget()), self.is_safe());
}

Value text_split(Interpreter& in, const Value& self, Arguments& arguments) { return split(in, self, arguments, false); }
Value text_rsplit(Interpreter& in, const Value& self, Arguments& arguments) { return split(in, self, arguments, true); }

Value text_splitlines(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.splitlines", arguments, {"keepends"}, 0);
  return list_of(in, split_lines(self.text(), bound.flag(0, false), in.budget()), self.is_safe());
}

Value partition(Interpreter& in, const Value& self, Arguments& arguments, bool from_right) {
  const Bound bound(from_right ? "str.rpartition" : "str.partition", arguments, {"sep"}, 1);
  const std::string& separator = bound.text(0);
  if (separator.empty()) fail("partition needs a separator that is not empty");
  const std::string& text = self.text();
  const std::size_t found = from_right ? find_text_right(text, separator, in.budget()) : find_text(text, separator);
  if (found == std::string::npos) {
    const Value empty = in.text("");
    return make_tuple(in.budget(),
                      from_right ? std::vector<Value>{empty, empty, self} : std::vector<Value>{self, empty, empty});
  }
  return make_tuple(in.budget(),
                    {in.text(text.substr(0, found)), bound.at(0), in.text(text.substr(found + separator.size()))});
}

Value text_partition(Interpreter& in, const Value& self, Arguments& arguments) {
  return partition(in, self, arguments, false);
}
Value text_rpartition(Interpreter& in, const Value& self, Arguments& arguments) {
  return partition(in, self, arguments, true);
}

// str.isalpha and its like: there is a character, and all of them are `good`.
template <bool (*kGood)(char32_t)>
Value all_characters(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("a test of str", arguments, {}, 0);
  const std::string& text = self.text();
  in.budget().scan(text.size());
  for (std::size_t at = 0; at < text.size();)
    if (!kGood(decode_code_point(text, at))) return Value(false);
  return Value(!text.empty());
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }

Value text_isascii(Interpreter&, const Value& self, Arguments& arguments) {
  const Bound bound("str.isascii", arguments, {}, 0);
  return Value(self.as<Text>().ascii());
}

Value text_isprintable(Interpreter& in, const Value& self, Arguments& arguments) {
  if (self.text().empty()) return Value(true);
  return all_characters<is_printable>(in, self, arguments);
}

// islower, isupper: there is a cased character, and all of them are of that case.
Value has_case(Interpreter& in, const Value& self, Arguments& arguments, bool upper) {
  const Bound bound(upper ? "str.isupper" : "str.islower", arguments, {}, 0);
  const std::string& text = self.text();
  in.budget().scan(text.size());
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_code_point(text, at);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return Value(false);
    found |= upper ? is_upper(c) : is_lower(c);
  }
  return Value(found);
}

Value text_islower(Interpreter& in, const Value& self, Arguments& arguments) {
  return has_case(in, self, arguments, false);
}
Value text_isupper(Interpreter& in, const Value& self, Arguments& arguments) {
  return has_case(in, self, arguments, true);
}

Value text_istitle(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.istitle", arguments, {}, 0);
  in.budget().scan(self.text().size());
  bool in_word = false, found = false;
  for (std::size_t at = 0; at < self.text().size();) {
    const char32_t c = decode_code_point(self.text(), at);
    const bool capital = is_upper(c) || is_title(c);
    if ((capital && in_word) || (is_lower(c) && !in_word)) return Value(false);
    in_word = capital || is_lower(c);
    found |= in_word;
  }
  return Value(found);
}

Value text_isidentifier(Interpreter& in, const Value& self, Arguments& arguments) {
  const Bound bound("str.isidentifier", arguments, {}, 0);
  const std::string& text = self.text();
  in.budget().scan(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t c = decode_code_point(text, at);
    if (c != '_' && !is_letter(c) && (first || !is_decimal(c))) return Value(false);
  }
  return Value(!text.empty());
}

constexpr MethodRow kTextMethods[] = {
    {"count", text_count},
    {"endswith", text_endswith},
    {"find", text_find},
    {"index", text_index},
    {"isalnum", all_characters<is_alphanumeric>},
    {"isalpha", all_characters<is_letter>},
    {"isascii", text_isascii},
    {"isdecimal", all_characters<is_decimal>},
    {"isdigit", all_characters<is_digit>},
    {"isidentifier", text_isidentifier},
    {"islower", text_islower},
    {"isnumeric", all_characters<is_numeric>},
    {"isprintable", text_isprintable},
    {"isspace", all_characters<is_space>},
    {"istitle", text_istitle},
    {"isupper", text_isupper},
    {"partition", text_partition},
    {"rfind", text_rfind},
    {"rindex", text_rindex},
    {"rpartition", text_rpartition},
    {"rsplit", text_rsplit},
    {"split", text_split},
    {"splitlines", text_splitlines},
    {"startswith", text_startswith},
};

}  // namespace

const MethodRow* find_text_method(std::string_view name) {
  const auto* row = std::lower_bound(std::begin(kTextMethods), std::end(kTextMethods), name,
                                     [](const MethodRow& r, std::string_view wanted) { return r.name < wanted; });
  return row != std::end(kTextMethods) && row->name == name ? row : nullptr;
}

}  // namespace octavo::jinja
