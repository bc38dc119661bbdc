#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/registry.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
bool plain(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("a test", arguments, {}, 0);
  return kHolds(input);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::boolean); }
bool is_true(const Value& v) { return v.is(Kind::boolean) && v.boolean(); }
bool is_false(const Value& v) { return v.is(Kind::boolean) && !v.boolean(); }
bool is_integer(const Value& v) { return v.is(Kind::integer); }
bool is_float(const Value& v) { return v.is(Kind::real); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is(Kind::dict); }
bool is_escaped(const Value& v) { return v.is_safe(); }
bool can_iterate(const Value& v) { return is_iterable(v) || v.is(Kind::loop); }

bool is_sequence(const Value& v) { return is_iterable(v) && !v.is(Kind::generator) && !v.is(Kind::view); }

bool is_callable(const Value& v) {
  return v.is(Kind::function) || v.is(Kind::method) || v.is(Kind::macro) || v.is(Kind::loop) || v.is(Kind::joiner) ||
         v.is_undefined();  // Jinja's undefined can be called, if only to fail
}

template <Op kOp>
bool compares(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("a test that compares", arguments, {"other"}, 1);
  return compare(kOp, input, bound.at(0), in.budget());
}

bool is_same(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("test 'sameas'", arguments, {"other"}, 1);
  return same(input, bound.at(0));
}

bool leaves(Interpreter& in, const Value& input, const Value& divisor, Int rest) {
  return equals(apply(Op::mod, input, divisor, in), Value(rest), in.budget());
}

bool is_odd(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("test 'odd'", arguments, {}, 0);
  return leaves(in, input, Value(Int{2}), 1);
}

bool is_even(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("test 'even'", arguments, {}, 0);
  return leaves(in, input, Value(Int{2}), 0);
}

bool is_divisible(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("test 'divisibleby'", arguments, {"num"}, 1);
  return leaves(in, input, bound.at(0), 0);
}

bool has_case(Interpreter& in, const Value& input, bool upper) {
  const std::string text = to_text(input, in.budget());
  in.budget().scan(text.size());
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_code_point(text, at);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    found |= upper ? is_upper(c) : is_lower(c);
  }
  return found;
}

bool is_all_lower(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("test 'lower'", arguments, {}, 0);
  return has_case(in, input, false);
}

bool is_all_upper(Interpreter& in, const Value& input, Arguments& arguments) {
  const Bound bound("test 'upper'", arguments, {}, 0);
  return has_case(in, input, true);
}

bool is_filter(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("test 'filter'", arguments, {}, 0);
  return input.is_string() && find_filter(input.text());
}

bool is_test(Interpreter&, const Value& input, Arguments& arguments) {
  const Bound bound("test 'test'", arguments, {}, 0);
  return input.is_string() && find_test(input.text());
}

constexpr TestRow kTests[] = {
    {"!=", compares<Op::not_equal>},
    {"<", compares<Op::less>},
    {"<=", compares<Op::less_equal>},
    {"==", compares<Op::equal>},
    {">", compares<Op::greater>},
    {">=", compares<Op::greater_equal>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", compares<Op::equal>},
    {"equalto", compares<Op::equal>},
    {"escaped", plain<is_escaped>},
    {"even", is_even},
    {"false", plain<is_false>},
    {"filter", is_filter},
    {"float", plain<is_float>},
    {"ge", compares<Op::greater_equal>},
    {"greaterthan", compares<Op::greater>},
    {"gt", compares<Op::greater>},
    {"in", compares<Op::in>},
    {"integer", plain<is_integer>},
    {"iterable", plain<can_iterate>},
    {"le", compares<Op::less_equal>},
    {"lessthan", compares<Op::less>},
    {"lower", is_all_lower},
    {"lt", compares<Op::less>},
    {"mapping", plain<is_mapping>},
    {"ne", compares<Op::not_equal>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", is_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", is_all_upper},
};

}  // namespace

std::span<const TestRow> tests() { return kTests; }

}  // namespace octavo::jinja
