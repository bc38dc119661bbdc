#include "text/jinja/format.h"

#include <cmath>

#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/literal.h"
#include "text/jinja/operators.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

// One "%-08.3f" of a pattern.
struct Directive {
  std::string key;
  bool keyed = false;
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  std::string width, precision;
  bool has_precision = false;
  char type = '\0';
};

class PercentFormatter {
 public:
  PercentFormatter(const std::string& pattern, const Value& arguments, Interpreter& in)
      : pattern_(pattern), arguments_(arguments), in_(in), out_(in.budget()) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const std::size_t percent = std::min(pattern_.find('%', at_), pattern_.size());
      out_.append(std::string_view(pattern_).substr(at_, percent - at_));
      at_ = percent;
      if (at_ == pattern_.size()) break;
      ++at_;
      const Directive directive = parse();
      if (directive.type == '%')
        out_.append("%");
      else
        write(directive);
    }
    // Python lets every value that can be indexed, except for strings, go unused.
    const bool indexable = arguments_.is(Kind::dict) || arguments_.is(Kind::list) || arguments_.is(Kind::range) ||
                           arguments_.is_undefined();
    const bool used_up =
        arguments_.is(Kind::tuple) ? next_ >= arguments_.items().size() : next_ > 0 || keyed_ || indexable;
    if (!used_up) fail("not all values were used by the string that '%' formats");
    return out_.take();
  }

 private:
  char peek() const {
    if (at_ >= pattern_.size()) fail("the string that '%' formats ends in the middle of a format");
    return pattern_[at_];
  }

  std::string digits() {
    std::string out;
    while (peek() >= '0' && peek() <= '9') out += pattern_[at_++];
    if (out.size() > 5) fail("a format asks for too many characters");
    return out;
  }

  Directive parse() {
    Directive d;
    if (peek() == '(') {
      const std::size_t end = pattern_.find(')', at_);
      if (end == std::string::npos) fail("a key in the string that '%' formats is never closed");
      d.key = pattern_.substr(at_ + 1, end - at_ - 1);
      d.keyed = true;
      at_ = end + 1;
    }
    for (bool more = true; more;) {
      switch (peek()) {
        case '-':
          d.left = true;
          break;
        case '0':
          d.zero = true;
          break;
        case '+':
          d.plus = true;
          break;
        case ' ':
          d.space = true;
          break;
        case '#':
          d.alternate = true;
          break;
        default:
          more = false;
      }
      if (more) ++at_;
    }
    d.width = peek() == '*' ? star() : digits();
    if (!d.width.empty() && d.width[0] == '-') {
      d.left = true;
      d.width.erase(0, 1);
    }
    if (peek() == '.') {
      ++at_;
      d.has_precision = true;
      d.precision = peek() == '*' ? star() : digits();
      if (d.precision.empty() || d.precision[0] == '-') d.precision = "0";
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    d.type = pattern_[at_++];
    return d;
  }

  std::string star() {
    ++at_;
    const Value width = next_value();
    if (!width.is_whole()) fail("'*' in a format needs a whole number");
    return to_decimal(clamp_index(width.whole()));
  }

  Value next_value() {
    if (arguments_.is(Kind::tuple)) {
      if (next_ >= arguments_.items().size()) fail("there are too few values for the string that '%' formats");
      return arguments_.items()[next_++];
    }
    if (next_++ > 0) fail("there are too few values for the string that '%' formats");
    return arguments_;
  }

  Value value_of(const Directive& directive) {
    if (!directive.keyed) return next_value();
    keyed_ = true;
    if (!arguments_.is(Kind::dict)) fail("a key in the string that '%' formats needs a dict");
    const Value* found = arguments_.as<Dict>().find(directive.key);
    if (!found) fail("the dict behind '%' lacks the key '" + directive.key + "'");
    return *found;
  }

  void write(const Directive& d) {
    Value value = value_of(d);
    std::string spec = d.left ? "<" : !d.zero || d.type == 's' || d.type == 'r' ? ">" : "";
    switch (d.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = d.type == 's' ? to_text(value, in_.budget()) : to_repr(value, in_.budget());
        if (d.has_precision)
          spec += d.width + "." + d.precision;
        else
          spec += d.width;
        return out_.append(format_value(in_.text(std::move(text)), spec, in_));
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_whole(d, value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        break;
      case 'c':
        return write_character(value);
      default:
        fail(std::string("'%' does not know the format '") + d.type + "'");
    }
    if (!value.is_number())
      fail(std::string("the format '%") + d.type + "' needs a number, not a value of type '" + type_name(value) + "'");
    spec += flags(d) + d.width;
    if (d.has_precision) spec += "." + d.precision;
    out_.append(format_value(Value(value.number()), spec + d.type, in_));
  }

  static std::string flags(const Directive& d) {
    std::string out = d.plus ? "+" : d.space ? " " : "";
    if (d.alternate) out += "#";
    return d.zero && !d.left ? out + "0" : out;
  }

  void write_whole(const Directive& d, Value value, std::string spec) {
    if (value.is(Kind::real) && (d.type == 'd' || d.type == 'i' || d.type == 'u')) {
      if (!std::isfinite(value.real()) || std::fabs(value.real()) > 1e38) fail("the format '%d' needs a finite number");
      value = Value(static_cast<Int>(value.real()));
    }
    if (!value.is_whole())
      fail(std::string("the format '%") + d.type + "' needs a whole number, not a value of type '" + type_name(value) +
           "'");
    const char type = d.type == 'i' || d.type == 'u' ? 'd' : d.type;
    if (d.has_precision) fail("'%' with a precision for a whole number is not supported");
    out_.append(format_value(Value(value.whole()), spec + flags(d) + d.width + type, in_));
  }

  void write_character(const Value& value) {
    if (value.is_string() && value.as<Text>().length == 1) return out_.append(value.text());
    if (!value.is_whole() || value.whole() < 0 || value.whole() > 0x10FFFF ||
        (value.whole() >= 0xD800 && value.whole() < 0xE000))
      fail("the format '%c' needs one character");
    std::string text;
    append_code_point(text, static_cast<char32_t>(value.whole()));
    out_.append(text);
  }

  const std::string& pattern_;
  const Value& arguments_;
  Interpreter& in_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  bool keyed_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(const Arguments& arguments, Interpreter& in) : arguments_(arguments), in_(in) {}

  std::string run(std::string_view pattern, int depth) {
    if (depth > 2) fail("the fields of a format are nested too deep");
    TextBuilder out(in_.budget());
    for (std::size_t at = 0; at < pattern.size();) {
      const std::size_t brace = std::min(pattern.find_first_of("{}", at), pattern.size());
      out.append(pattern.substr(at, brace - at));
      if (brace == pattern.size()) break;
      const bool doubled = brace + 1 < pattern.size() && pattern[brace + 1] == pattern[brace];
      if (doubled) {
        out.append(pattern.substr(brace, 1));
        at = brace + 2;
        continue;
      }
      if (pattern[brace] == '}') fail("a format has a '}' that closes nothing");
      const std::size_t end = field_end(pattern, brace + 1);
      out.append(field(pattern.substr(brace + 1, end - brace - 1), depth));
      at = end + 1;
    }
    return out.take();
  }

 private:
  static std::size_t field_end(std::string_view pattern, std::size_t at) {
    for (int open = 1; at < pattern.size(); ++at) {
      if (pattern[at] == '{')
        ++open;
      else if (pattern[at] == '}' && --open == 0)
        return at;
    }
    fail("a format has a '{' that is never closed");
  }

  std::string field(std::string_view text, int depth) {
    const std::size_t name_end = std::min(text.find_first_of("!:"), text.size());
    std::string_view rest = text.substr(name_end);
    Value value = lookup(text.substr(0, name_end));
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : '\0';
      if (conversion == 'r')
        value = in_.text(to_repr(value, in_.budget()));
      else if (conversion == 's')
        value = in_.text(to_text(value, in_.budget()));
      else
        fail("a format has an unknown conversion behind '!'");
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') fail("a format has more than one character behind '!'");
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth + 1);
    return format_value(value, spec, in_);
  }

  Value lookup(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, at));
    while (at < path.size()) {
      const bool attribute = path[at] == '.';
      const std::size_t begin = at + 1;
      std::size_t end = attribute ? std::min(path.find_first_of(".[", begin), path.size()) : path.find(']', begin);
      if (end == std::string_view::npos) fail("a field of a format has a '[' that is never closed");
      const std::string name(path.substr(begin, end - begin));
      const std::optional<Int> index = attribute ? std::nullopt : parse_python_int(name, 10);
      value = attribute ? in_.attribute(value, name) : in_.item(value, index ? Value(*index) : in_.text(name));
      at = attribute ? end : end + 1;
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::optional<Int> index = name.empty() ? std::optional<Int>(Int{next_++}) : parse_python_int(name, 10);
    if (index) {
      if (*index < 0 || *index >= static_cast<Int>(arguments_.positional.size()))
        fail("a format has more fields than values");
      return arguments_.positional[static_cast<std::size_t>(*index)];
    }
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    fail("a format names the field '" + std::string(name.substr(0, 80)) + "', which was not given");
  }

  const Arguments& arguments_;
  Interpreter& in_;
  std::int64_t next_ = 0;
};

}  // namespace

Value format_percent(const Value& pattern, const Value& arguments, Interpreter& in) {
  return in.text(PercentFormatter(pattern.text(), arguments, in).run(), pattern.is_safe());
}

Value format_braces(const Value& pattern, const Arguments& arguments, Interpreter& in) {
  return in.text(BraceFormatter(arguments, in).run(pattern.text(), 0), pattern.is_safe());
}

}  // namespace octavo::jinja
