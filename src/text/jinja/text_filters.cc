#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/registry.h"
#include "text/jinja/render.h"
#include "text/jinja/replace.h"
#include "text/jinja/split.h"

namespace octavo::jinja {
namespace {

// The filters that take anything take its text, and keep its mark of safety.
Value text_of(Interpreter& in, const Value& input) {
  return input.is_string() ? input : in.text(to_text(input, in.budget()));
}

template <std::string (*kChange)(std::string_view)>
Value changed(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("a filter of letter case", arguments, {}, 0);
  const Value text = text_of(in, input);
  in.budget().expect(text.text().size() * 3);
  return in.text(kChange(text.text()), text.is_safe());
}

// Capitals behind spaces, dashes and opening brackets, and nowhere else; str.title puts them behind any non-letter.
std::string jinja_title(std::string_view text) {
  std::string out;
  const auto starts_word = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::size_t word = 0;
  const auto flush = [&](std::size_t end) {
    if (word == end) return;
    std::size_t behind = word;
    decode_code_point(text, behind);
    out += to_upper(text.substr(word, behind - word));
    out += to_lower(text.substr(behind, end - behind));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!starts_word(decode_code_point(text, at))) continue;
    flush(begin);
    out += text.substr(begin, at - begin);
    word = at;
  }
  flush(text.size());
  return out;
}

Value trim(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'trim'", arguments, {"chars"}, 0);
  const Value text = text_of(in, input);
  const std::string* characters = bound.is_given(0) ? &bound.text(0) : nullptr;
  in.budget().scan(text.text().size() * (characters ? std::max<std::size_t>(characters->size(), 1) : 1));
  return in.text(std::string(strip(text.text(), true, true, characters)), text.is_safe());
}

Value replace(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'replace'", arguments, {"old", "new", "count"}, 2);
  const std::string text = to_text(input, in.budget());
  const std::string part = to_text(bound.at(0), in.budget()), by = to_text(bound.at(1), in.budget());
  const std::int64_t count = bound.is_given(2) ? clamp_index(bound.whole(2)) : -1;
  return in.text(replaced(text, part, by, count, in.budget()));
}

Value string(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'string'", arguments, {}, 0);
  return text_of(in, input);
}

Value safe(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'safe'", arguments, {}, 0);
  return in.text(to_text(input, in.budget()), true);
}

Value escape(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'escape'", arguments, {}, 0);
  if (input.is_safe()) return input;
  const std::string text = to_text(input, in.budget());
  in.budget().expect(text.size() * 6);
  return in.text(escape_html(text), true);
}

Value forceescape(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'forceescape'", arguments, {}, 0);
  const std::string text = to_text(input, in.budget());
  in.budget().expect(text.size() * 6);
  return in.text(escape_html(text), true);
}

Value indent(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'indent'", arguments, {"width", "first", "blank"}, 0);
  if (input.is_undefined()) fail(input.as<Undefined>().message);
  if (!input.is_string())
    fail(std::string("filter 'indent' needs a string, not a value of type '") + type_name(input) + "'");
  std::string one_indent;
  if (bound.has(0) && bound.at(0).is_string()) {
    one_indent = bound.text(0);
  } else {
    TextBuilder spaces(in.budget());
    spaces.repeat(" ",
                  static_cast<std::size_t>(std::max<std::int64_t>(0, clamp_index(bound.has(0) ? bound.whole(0) : 4))));
    one_indent = spaces.take();
  }
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  const std::string text = input.text() + "\n";
  const Pieces lines = split_lines(text, false, in.budget());
  TextBuilder out(in.budget());
  for (std::size_t i = 0; i < lines.all().size(); ++i) {
    const std::string_view line = lines.all()[i];
    if (i > 0) out.append("\n");
    if (i == 0 ? first : blank || !line.empty()) out.append(one_indent);
    out.append(line);
  }
  return in.text(out.take(), input.is_safe());
}

Value center(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'center'", arguments, {"width"}, 0);
  const Value text = text_of(in, input);
  const std::int64_t width = bound.has(0) ? clamp_index(bound.whole(0)) : 80;
  return in.text(padded_text(text.as<Text>(), width, " ", 'c', in.budget()), text.is_safe());
}

Value truncate(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'truncate'", arguments, {"length", "killwords", "end", "leeway"}, 0);
  const std::int64_t length = bound.has(0) ? clamp_index(bound.whole(0)) : 255;
  const std::string end = bound.has(2) ? bound.text(2) : "...";
  const std::int64_t leeway = clamp_index(bound.whole(3, 5));
  const auto end_length = static_cast<std::int64_t>(count_code_points(end));
  if (length < end_length || leeway < 0)
    fail("filter 'truncate' needs a length of at least that of its end, and a leeway of at least 0");
  std::size_t input_length = 0;
  const bool has_length = find_length(input, input_length);
  if (has_length && static_cast<std::int64_t>(input_length) <= length + leeway) return input;
  if (!input.is_string())
    fail(std::string("filter 'truncate' needs a string, not a value of type '") + type_name(input) + "'");
  std::string_view kept = code_point_range(input.text(), 0, static_cast<std::size_t>(length - end_length));
  if (!bound.flag(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return in.text(std::string(kept) + end);
}

Value wordcount(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'wordcount'", arguments, {}, 0);
  const std::string text = to_text(input, in.budget());
  in.budget().scan(text.size());
  std::int64_t count = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_code_point(text, at);
    const bool word = c == '_' || is_letter(c) || is_numeric(c);
    count += word && !in_word;
    in_word = word;
  }
  return Value::integer(count);
}

std::string percent_encoded(std::string_view text, bool for_query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !for_query);
    if (plain)
      out += c;
    else if (c == ' ' && for_query)
      out += '+';
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

Value urlencode(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'urlencode'", arguments, {}, 0);
  if (input.is_string() || !is_iterable(input)) {
    const std::string text = to_text(input, in.budget());
    in.budget().expect(text.size() * 3);
    return in.text(percent_encoded(text, false));
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (input.is(Kind::dict)) {
    pairs = input.as<Dict>().entries;
  } else {
    for (const Value& pair : to_items(input, in.budget())) {
      const std::vector<Value> parts = to_items(pair, in.budget());
      if (parts.size() != 2) fail("filter 'urlencode' needs pairs of a key and a value");
      pairs.emplace_back(parts[0], parts[1]);
    }
  }
  TextBuilder out(in.budget());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.append("&");
    out.append(percent_encoded(to_text(pairs[i].first, in.budget()), true));
    out.append("=");
    out.append(percent_encoded(to_text(pairs[i].second, in.budget()), true));
  }
  return in.text(out.take());
}

Value format(Interpreter& in, const Value& input, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("filter 'format' takes values with names or without, not both");
  const Value text = text_of(in, input);
  if (arguments.named.empty())
    return format_percent(text, make_tuple(in.budget(), std::move(arguments.positional)), in);
  std::vector<std::pair<Value, Value>> entries;
  for (auto& [name, value] : arguments.named) entries.emplace_back(in.text(name), std::move(value));
  return format_percent(text, make_dict(in.budget(), std::move(entries)), in);
}

Value tojson(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'tojson'", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.is_given(1)) {
    style.item_separator = ",";
    if (bound.at(1).is_string()) {
      style.indent = bound.text(1);
    } else {
      const std::int64_t width = clamp_index(bound.whole(1));
      if (width > 1000) fail("filter 'tojson' indents by at most 1000 spaces");
      style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (bound.is_given(2)) {
    const std::vector<Value> separators = to_items(bound.at(2), in.budget());
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      fail("argument 'separators' of filter 'tojson' must be two strings");
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  return in.text(to_json(input, style, in.budget()));
}

constexpr FilterRow kTextFilters[] = {
    {"capitalize", changed<to_capitalized>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", forceescape},
    {"format", format},
    {"indent", indent},
    {"lower", changed<to_lower>},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"title", changed<jinja_title>},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", changed<to_upper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kTextFilters; }

}  // namespace octavo::jinja
