#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/literal.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

constexpr int kMaxWidth = 100'000;
constexpr int kMaxPrecision = 1'000;

struct Spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  int width = 0;
  int precision = -1;
  char type = '\0';
};

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int read_count(std::string_view& spec, int most) {
  int count = 0;
  while (!spec.empty() && spec[0] >= '0' && spec[0] <= '9') {
    count = count * 10 + (spec[0] - '0');
    if (count > most) fail("a format asks for more than " + std::to_string(most) + " characters");
    spec.remove_prefix(1);
  }
  return count;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  const std::string_view whole = text;
  const auto skip = [&](char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  };
  std::size_t fill_end = 0;
  if (!text.empty()) decode_code_point(text, fill_end);
  if (fill_end < text.size() && fill_end > 0 && is_align(text[fill_end])) {
    spec.fill = std::string(text.substr(0, fill_end));
    spec.align = text[fill_end];
    text.remove_prefix(fill_end + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  for (const char sign : {'+', '-', ' '})
    if (skip(sign)) {
      spec.sign = sign;
      break;
    }
  spec.alternate = skip('#');
  if (skip('0') && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_count(text, kMaxWidth);
  for (const char grouping : {',', '_'})
    if (skip(grouping)) spec.grouping = grouping;
  if (skip('.')) {
    if (text.empty() || text[0] < '0' || text[0] > '9')
      fail("the format '" + std::string(whole) + "' lacks its precision");
    spec.precision = read_count(text, kMaxPrecision);
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) fail("the format '" + std::string(whole) + "' is not valid");
  return spec;
}

std::string in_base(Int value, int base, bool upper) {
  if (base == 10) return to_decimal(value);
  __extension__ unsigned __int128 rest = static_cast<unsigned __int128>(value);
  const std::string_view all = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += all[static_cast<std::size_t>(rest % static_cast<unsigned>(base))];
    rest /= static_cast<unsigned>(base);
  } while (rest != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

void group_digits(std::string& number, char separator, std::size_t every) {
  std::size_t whole = std::min(number.find_first_of(".e"), number.size());
  while (whole > every) {
    whole -= every;
    number.insert(whole, 1, separator);
  }
}

std::string real_digits(double value, const Spec& spec) {  // of a value that is not negative
  const bool upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  if (spec.type == '\0' && spec.precision < 0) return repr_of(value);
  const char type = spec.type == '%' ? 'f' : spec.type == '\0' || spec.type == 'n' ? 'g' : spec.type;
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const char pattern[] = {'%', '.', '*', type, '\0'};
  std::string out(static_cast<std::size_t>(precision) + 400, '\0');
  const double shown = spec.type == '%' ? value * 100 : value;
  out.resize(static_cast<std::size_t>(std::snprintf(out.data(), out.size(), pattern, precision, shown)));
  if (spec.type == '\0' && out.find_first_of(".e") == std::string::npos) out += ".0";
  return spec.type == '%' ? out + "%" : out;
}

std::string padded(const std::string& sign, const std::string& body, const Spec& spec, char align, Interpreter& in) {
  const std::size_t size = count_code_points(sign) + count_code_points(body);
  const std::size_t missing =
      static_cast<std::size_t>(spec.width) > size ? static_cast<std::size_t>(spec.width) - size : 0;
  const std::size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const std::size_t inside = align == '=' ? missing : 0;
  TextBuilder out(in.budget());
  out.repeat(spec.fill, left);
  out.append(sign);
  out.repeat(spec.fill, inside);
  out.append(body);
  out.repeat(spec.fill, missing - left - inside);
  return out.take();
}

std::string format_number(const Value& value, const Spec& spec, std::string_view text, Interpreter& in) {
  const bool real = value.is(Kind::real) || std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool as_real = real && (spec.type != '\0' || value.is(Kind::real));
  const bool negative = as_real ? std::signbit(value.number()) && !std::isnan(value.number()) : value.whole() < 0;
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  std::string body;
  if (as_real) {
    if (std::string_view("dboxXc").find(spec.type) != std::string_view::npos && spec.type != '\0')
      fail("the format '" + std::string(text) + "' needs a whole number");
    body = real_digits(std::fabs(value.number()), spec);
  } else {
    const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
    if (base == 10 && spec.type != '\0' && spec.type != 'd' && spec.type != 'n')
      fail("the format '" + std::string(text) + "' does not fit a whole number");
    if (spec.precision >= 0)
      fail("the format '" + std::string(text) + "' has a precision, which a whole number has not");
    body = in_base(negative ? -value.whole() : value.whole(), base, spec.type == 'X');
    if (spec.alternate && base != 10) sign += std::string("0") + spec.type;
  }
  if (spec.grouping != '\0') group_digits(body, spec.grouping, spec.type == 'x' || spec.type == 'b' ? 4 : 3);
  return padded(sign, body, spec, spec.align == '\0' ? '>' : spec.align, in);
}

}  // namespace

std::string format_value(const Value& value, std::string_view text, Interpreter& in) {
  if (text.empty()) return to_text(value, in.budget());
  const Spec spec = parse_spec(text);
  if (value.is_number() && !(value.is(Kind::boolean) && spec.type == 's')) return format_number(value, spec, text, in);
  if (!value.is_string()) fail(std::string("a value of type '") + type_name(value) + "' takes no format");
  if ((spec.type != '\0' && spec.type != 's') || spec.align == '=')
    fail("the format '" + std::string(text) + "' does not fit a string");
  std::string body = value.text();
  if (spec.precision >= 0) body = std::string(code_point_range(body, 0, static_cast<std::size_t>(spec.precision)));
  return padded("", body, spec, spec.align == '\0' ? '<' : spec.align, in);
}

}  // namespace octavo::jinja
