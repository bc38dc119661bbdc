#include "text/jinja/operators.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"

namespace octavo::jinja {
namespace {

const char* sign_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::floor_div:
      return "//";
    case Op::mod:
      return "%";
    default:
      return "**";
  }
}

void refuse_undefined(const Value& value) {
  if (value.is_undefined()) fail(value.as<Undefined>().message);
}

[[noreturn]] void fail_types(Op op, const Value& left, const Value& right) {
  fail(std::string("'") + sign_of(op) + "' does not work between values of type '" + type_name(left) + "' and '" +
       type_name(right) + "'");
}

Value whole(bool overflow, const Int& value) {
  if (overflow) fail("a whole number grows beyond 128 bits");
  return Value(value);
}

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) fail("zero cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? Int{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? Int{1} : Int{-1});
  if (exponent > 127) return whole(true, 0);
  Int result = 1;
  for (Int i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(result, base, &result)) return whole(true, 0);
  return Value(result);
}

Value whole_arithmetic(Op op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case Op::add:
      return whole(__builtin_add_overflow(a, b, &out), out);
    case Op::sub:
      return whole(__builtin_sub_overflow(a, b, &out), out);
    case Op::mul:
      return whole(__builtin_mul_overflow(a, b, &out), out);
    case Op::power:
      return power(a, b);
    default:
      break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::div) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == Op::mod ? Value(Int{0}) : whole(__builtin_sub_overflow(Int{0}, a, &out), out);
  return Value(op == Op::mod ? a - floor_divide(a, b) * b : floor_divide(a, b));
}

Value real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return Value(a + b);
    case Op::sub:
      return Value(a - b);
    case Op::mul:
      return Value(a * b);
    case Op::power: {
      const double result = std::pow(a, b);
      if (a == 0 && b < 0) fail("zero cannot be raised to a negative power");
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("a power of a negative number is not real");
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("a power is too large");
      return Value(result);
    }
    default:
      break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::div) return Value(a / b);
  const double rest = floor_modulo(a, b);
  if (op == Op::mod) return Value(rest);
  const double quotient = (a - rest) / b;
  return Value(quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient + 0.5));
}

Value repeat(const Value& sequence, Int times, Interpreter& in) {
  const std::size_t count = times <= 0 ? 0 : static_cast<std::size_t>(clamp_index(times));
  if (sequence.is_string()) {
    TextBuilder out(in.budget());
    out.repeat(sequence.text(), count);
    return in.text(out.take(), sequence.is_safe());
  }
  const std::vector<Value>& items = sequence.items();
  std::size_t num_items = 0, num_bytes = 0;
  if (__builtin_mul_overflow(items.size(), count, &num_items) ||
      __builtin_mul_overflow(num_items, sizeof(Value), &num_bytes))
    num_bytes = static_cast<std::size_t>(-1);
  in.budget().expect(num_bytes);
  in.budget().step(static_cast<std::int64_t>(num_items));
  std::vector<Value> all;
  all.reserve(num_items);
  for (std::size_t i = 0; i < (items.empty() ? 0 : count); ++i) all.insert(all.end(), items.begin(), items.end());
  return sequence.is(Kind::list) ? make_list(in.budget(), std::move(all)) : make_tuple(in.budget(), std::move(all));
}

Value add_texts(const Value& left, const Value& right, Interpreter& in) {
  const bool safe = left.is_safe() || right.is_safe();
  TextBuilder out(in.budget());
  for (const Value* side : {&left, &right})
    out.append(safe && !side->is_safe() ? escape_html(side->text()) : side->text());
  return in.text(out.take(), safe);
}

Value add_sequences(const Value& left, const Value& right, Interpreter& in) {
  in.budget().expect((left.items().size() + right.items().size()) * sizeof(Value));
  std::vector<Value> all = left.items();
  all.insert(all.end(), right.items().begin(), right.items().end());
  return left.is(Kind::list) ? make_list(in.budget(), std::move(all)) : make_tuple(in.budget(), std::move(all));
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple); }

}  // namespace

Value apply(Op op, const Value& left, const Value& right, Interpreter& in) {
  if (left.is_whole() && right.is_whole()) return whole_arithmetic(op, left.whole(), right.whole());
  if (left.is_number() && right.is_number()) return real_arithmetic(op, left.number(), right.number());
  if (op == Op::mod && left.is_string()) return format_percent(left, right, in);
  refuse_undefined(left);
  refuse_undefined(right);
  if (op == Op::add && left.is_string() && right.is_string()) return add_texts(left, right, in);
  if (op == Op::add && left.kind() == right.kind() && (left.is(Kind::list) || left.is(Kind::tuple)))
    return add_sequences(left, right, in);
  if (op == Op::mul && is_repeatable(left) && right.is_whole()) return repeat(left, right.whole(), in);
  if (op == Op::mul && left.is_whole() && is_repeatable(right)) return repeat(right, left.whole(), in);
  fail_types(op, left, right);
}

bool contains(const Value& container, const Value& element, Budget& budget) {
  if (container.is_string()) {
    if (element.is_undefined()) fail(element.as<Undefined>().message);
    if (!element.is_string())
      fail(std::string("'in' a string needs a string, not a value of type '") + type_name(element) + "'");
    budget.scan(container.text().size());
    return find_text(container.text(), element.text()) != std::string::npos;
  }
  if (container.is(Kind::dict)) return container.as<Dict>().find(element, budget) != nullptr;
  Cursor cursor(container, budget);
  for (Value item; cursor.next(item);)
    if (equals(item, element, budget)) return true;
  return false;
}

bool compare(Op op, const Value& left, const Value& right, Budget& budget) {
  switch (op) {
    case Op::equal:
      return equals(left, right, budget);
    case Op::not_equal:
      return !equals(left, right, budget);
    case Op::less:
      return less(left, right, budget);
    case Op::greater:
      return less(right, left, budget);
    case Op::in:
      return contains(right, left, budget);
    case Op::not_in:
      return !contains(right, left, budget);
    default:
      break;
  }
  // Not the opposite of "greater", because of NaN.
  const bool is_equal = equals(left, right, budget);
  const bool ordered = op == Op::less_equal ? less(left, right, budget) : less(right, left, budget);
  return ordered || is_equal;
}

Value signed_value(const Value& value, bool negative) {
  refuse_undefined(value);
  if (value.is(Kind::real)) return Value(negative ? -value.real() : value.real());
  if (!value.is_whole()) fail(std::string("a value of type '") + type_name(value) + "' has no sign");
  Int out = value.whole();
  return whole(negative && __builtin_sub_overflow(Int{0}, value.whole(), &out), out);
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

double python_round(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    std::string text(400 + static_cast<std::size_t>(digits), '\0');
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), value);
    return std::strtod(text.c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

}  // namespace octavo::jinja
