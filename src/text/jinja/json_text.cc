#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/code_points.h"
#include "text/jinja/literal.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

void append_escape(std::string& out, char32_t unit) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(unit));
  out += buffer;
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget), out_(budget) {}

  void write(const Value& value) {
    budget_.step();
    switch (value.kind()) {
      case Kind::none:
        return out_.append("null");
      case Kind::boolean:
        return out_.append(value.boolean() ? "true" : "false");
      case Kind::integer:
        return out_.append(to_decimal(value.whole()));
      case Kind::real:
        return out_.append(number(value.real()));
      case Kind::string:
        return string(value.text());
      case Kind::list:
      case Kind::tuple:
        return array(value.items());
      case Kind::dict:
        return object(value.as<Dict>());
      case Kind::undefined:
        fail("tojson was given an undefined value: " + value.as<Undefined>().message);
      default:
        fail(std::string("tojson cannot write a value of type '") + type_name(value) + "'");
    }
  }

  std::string take() { return out_.take(); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return repr_of(value);
  }

  void string(const std::string& text) {
    budget_.expect(text.size() * 2);
    std::string escaped = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      char32_t c = decode_code_point(text, at);
      switch (c) {
        case '"':
          escaped += "\\\"";
          break;
        case '\\':
          escaped += "\\\\";
          break;
        case '\n':
          escaped += "\\n";
          break;
        case '\r':
          escaped += "\\r";
          break;
        case '\t':
          escaped += "\\t";
          break;
        case '\b':
          escaped += "\\b";
          break;
        case '\f':
          escaped += "\\f";
          break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
            append_escape(escaped, c);
          } else if (style_.ensure_ascii && c >= 0x10000) {
            c -= 0x10000;
            append_escape(escaped, 0xD800 + (c >> 10));
            append_escape(escaped, 0xDC00 + (c & 0x3FF));
          } else {
            escaped.append(text, begin, at - begin);
          }
      }
    }
    out_.append(escaped + "\"");
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    out_.repeat(*style_.indent, level_);
  }

  void array(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.boolean() ? "true" : "false";
      case Kind::integer:
        return to_decimal(key.whole());
      case Kind::real:
        return number(key.real());
      default:
        fail(std::string("tojson cannot write a key of type '") + type_name(key) + "'");
    }
  }

  void object(const Dict& dict) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    out_.append("{");
    ++level_;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      string(key_text(order[i]->first));
      out_.append(style_.key_separator);
      write(order[i]->second);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  const JsonStyle& style_;
  Budget& budget_;
  TextBuilder out_;
  std::size_t level_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace octavo::jinja
