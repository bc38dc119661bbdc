#include "text/jinja/render.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/literal.h"

namespace octavo::jinja {
namespace {

std::string hex(const char* prefix, char32_t value, int num_digits) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "%s%0*x", prefix, num_digits, static_cast<unsigned>(value));
  return buffer;
}

void write_items(TextBuilder& out, const std::vector<Value>& items, Budget& budget) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(out, items[i], budget);
  }
}

void write_dict(TextBuilder& out, const Dict& dict, Budget& budget) {
  out.append("{");
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(out, dict.entries[i].first, budget);
    out.append(": ");
    write_repr(out, dict.entries[i].second, budget);
  }
  out.append("}");
}

void write_range(TextBuilder& out, const Range& range) {
  out.append("range(" + to_decimal(range.start) + ", " + to_decimal(range.stop));
  if (range.step != 1) out.append(", " + to_decimal(range.step));
  out.append(")");
}

void write_namespace(TextBuilder& out, const Namespace& space, Budget& budget) {
  const DepthGuard depth(budget);  // an attribute may be this namespace again
  out.append("<Namespace {");
  for (std::size_t i = 0; i < space.attributes.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(repr_of(space.attributes[i].first) + ": ");
    write_repr(out, space.attributes[i].second, budget);
  }
  out.append("}>");
}

}  // namespace

std::string repr_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40] = {};
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));  // "-1.2345e+06"
  const std::size_t mark = shortest.find('e');
  const int exponent = std::atoi(buffer + mark + 1);  // to_chars writes no NUL, but all behind it is NUL
  std::string digits;
  for (const char c : shortest.substr(0, mark))
    if (c >= '0' && c <= '9') digits += c;
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    char tail[8];
    std::snprintf(tail, sizeof tail, "e%+03d", exponent);
    return out + tail;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr_of(std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = decode_code_point(text, at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      out += c < 0x100 ? hex("\\x", c, 2) : c < 0x10000 ? hex("\\u", c, 4) : hex("\\U", c, 8);
    }
  }
  return out + quote;
}

void write_text(TextBuilder& out, const Value& value, Budget& budget) {
  if (value.is_undefined()) return;
  if (value.is_string()) return out.append(value.text());
  write_repr(out, value, budget);
}

void write_repr(TextBuilder& out, const Value& value, Budget& budget) {
  budget.step();
  switch (value.kind()) {
    case Kind::undefined:
      return out.append("Undefined");
    case Kind::none:
      return out.append("None");
    case Kind::boolean:
      return out.append(value.boolean() ? "True" : "False");
    case Kind::integer:
      return out.append(to_decimal(value.whole()));
    case Kind::real:
      return out.append(repr_of(value.real()));
    case Kind::string:
      budget.expect(value.text().size() * 2);
      return out.append(value.is_safe() ? "Markup(" + repr_of(value.text()) + ")" : repr_of(value.text()));
    case Kind::list:
      out.append("[");
      write_items(out, value.items(), budget);
      return out.append("]");
    case Kind::tuple:
      out.append("(");
      write_items(out, value.items(), budget);
      return out.append(value.items().size() == 1 ? ",)" : ")");
    case Kind::dict:
      return write_dict(out, value.as<Dict>(), budget);
    case Kind::range:
      return write_range(out, value.as<Range>());
    case Kind::view:
      out.append(std::string(value.as<View>().name) + "([");
      write_items(out, value.as<View>().items, budget);
      return out.append("])");
    case Kind::name_space:
      return write_namespace(out, value.as<Namespace>(), budget);
    case Kind::loop: {
      Loop& loop = value.as<Loop>();
      const std::size_t length = loop.length();
      return out.append("<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(length) + ">");
    }
    case Kind::macro:
      return out.append("<Macro " + repr_of(value.as<Macro>().statement->name) + ">");
    default:
      return out.append(std::string("<") + type_name(value) + ">");
  }
}

std::string to_text(const Value& value, Budget& budget) {
  if (value.is_string()) return value.text();
  TextBuilder out(budget);
  write_text(out, value, budget);
  return out.take();
}

std::string to_repr(const Value& value, Budget& budget) {
  TextBuilder out(budget);
  write_repr(out, value, budget);
  return out.take();
}

}  // namespace octavo::jinja
