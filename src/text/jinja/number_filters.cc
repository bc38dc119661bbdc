#include <cmath>
#include <cstdio>

#include "text/jinja/attribute_path.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/literal.h"
#include "text/jinja/operators.h"
#include "text/jinja/registry.h"

namespace octavo::jinja {
namespace {

constexpr double kIntLimit = 1.7e38;  // of 128 bits

Value whole_of(double value) {
  if (!std::isfinite(value) || std::fabs(value) >= kIntLimit) fail("a number is too large for a whole number");
  return Value(static_cast<Int>(value));
}

Value to_int(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'int'", arguments, {"default", "base"}, 0);
  const Value fallback = bound.value(0, Value(Int{0}));
  if (input.is_undefined()) fail(input.as<Undefined>().message);
  if (input.is_whole()) return Value(input.whole());
  if (input.is(Kind::real)) return std::isnan(input.real()) ? fallback : whole_of(input.real());
  if (!input.is_string()) return fallback;
  const Int base = bound.has(1) ? bound.whole(1) : 10;
  if (base != 0 && (base < 2 || base > 36)) return fallback;
  if (const std::optional<Int> whole = parse_python_int(input.text(), static_cast<int>(base))) return Value(*whole);
  const std::optional<double> real = parse_python_float(input.text());
  return real && std::isfinite(*real) ? whole_of(*real) : fallback;
}

Value to_float(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'float'", arguments, {"default"}, 0);
  if (input.is_undefined()) fail(input.as<Undefined>().message);
  if (input.is_number()) return Value(input.number());
  if (input.is_string())
    if (const std::optional<double> real = parse_python_float(input.text())) return Value(*real);
  return bound.value(0, Value(0.0));
}

void need_number(const Value& value, const char* filter) {
  if (value.is_undefined()) fail(value.as<Undefined>().message);
  if (!value.is_number())
    fail(std::string("filter '") + filter + "' needs a number, not a value of type '" + type_name(value) + "'");
}

Value absolute(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'abs'", arguments, {}, 0);
  need_number(input, "abs");
  if (input.is(Kind::real)) return Value(std::fabs(input.real()));
  return input.whole() < 0 ? signed_value(input, true) : Value(input.whole());
}

Value round_whole(Int value, std::int64_t digits) {
  if (digits >= 0) return Value(value);
  if (digits < -36) return Value(Int{0});
  Int unit = 1;
  for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
  const Int rest = ((value % unit) + unit) % unit, low = value - rest;
  const bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
  return Value(up ? low + unit : low);
}

Value round(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'round'", arguments, {"precision", "method"}, 0);
  need_number(input, "round");
  const std::int64_t digits = bound.has(0) ? clamp_index(bound.whole(0)) : 0;
  const std::string method = bound.has(1) ? bound.text(1) : "common";
  if (method == "common") {
    if (input.is_whole()) return round_whole(input.whole(), digits);
    return Value(python_round(input.real(), digits));
  }
  if (method != "ceil" && method != "floor")
    fail("argument 'method' of filter 'round' must be 'common', 'ceil' or 'floor'");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value sum(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'sum'", arguments, {"attribute", "start"}, 0);
  const AttributePath path(bound.value(0));
  Value total = bound.value(1, Value(Int{0}));
  if (total.is_string()) fail("filter 'sum' does not add strings: use filter 'join'");
  Cursor cursor(input, in.budget());
  for (Value item; cursor.next(item);) total = apply(Op::add, total, path.of(item, in), in);
  return total;
}

Value filesizeformat(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("filter 'filesizeformat'", arguments, {"binary"}, 0);
  Arguments none;
  double bytes = to_float(in, input, none).real();
  const bool binary = bound.flag(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.text("1 Byte");
  char buffer[64];
  if (bytes < base) {
    std::snprintf(buffer, sizeof buffer, "%.0f Bytes", std::trunc(bytes));
    return in.text(buffer);
  }
  const char letters[] = "kMGTPEZY";
  std::size_t unit = 0;
  for (bytes /= base; bytes >= base && unit < 7; ++unit) bytes /= base;
  const char letter = binary && unit == 0 ? 'K' : letters[unit];
  std::snprintf(buffer, sizeof buffer, "%.1f %c%s", bytes, letter, binary ? "iB" : "B");
  return in.text(buffer);
}

constexpr FilterRow kNumberFilters[] = {{"abs", absolute},   {"filesizeformat", filesizeformat},
                                        {"float", to_float}, {"int", to_int},
                                        {"round", round},    {"sum", sum}};

}  // namespace

std::span<const FilterRow> number_filters() { return kNumberFilters; }

}  // namespace octavo::jinja
