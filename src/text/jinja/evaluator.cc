#include "text/jinja/functions.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lookup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/render.h"

namespace octavo::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  if (expr.kind == Expr::Kind::constant) return expr.value;
  const DepthGuard depth(budget_);
  budget_.step();
  line_ = expr.line;
  switch (expr.kind) {
    case Expr::Kind::constant:
      return expr.value;
    case Expr::Kind::name:
      return evaluate_name(expr);
    case Expr::Kind::tuple:
    case Expr::Kind::list:
      return evaluate_parts(expr);
    case Expr::Kind::dict:
      return evaluate_dict(expr);
    case Expr::Kind::slice:
      return evaluate_slice(expr);
    case Expr::Kind::call:
      return evaluate_call(expr);
    case Expr::Kind::filter:
      return evaluate_filter(expr);
    case Expr::Kind::test:
      return evaluate_test(expr);
    case Expr::Kind::compare:
      return evaluate_compare(expr);
    case Expr::Kind::concat:
      return evaluate_concat(expr);
    case Expr::Kind::conditional:
      return evaluate_conditional(expr);
    default:
      return evaluate_operator(expr);
  }
}

Value Interpreter::evaluate_operator(const Expr& expr) {
  Value left = evaluate(*expr.parts[0]);
  switch (expr.kind) {
    case Expr::Kind::logical_not:
      return Value(!truth(left));
    case Expr::Kind::logical_and:
      return truth(left) ? evaluate(*expr.parts[1]) : left;
    case Expr::Kind::logical_or:
      return truth(left) ? left : evaluate(*expr.parts[1]);
    case Expr::Kind::item: {
      const Value key = evaluate(*expr.parts[1]);
      line_ = expr.line;
      return item(left, key);
    }
    case Expr::Kind::binary: {
      const Value right = evaluate(*expr.parts[1]);
      line_ = expr.line;
      return apply(expr.ops[0], left, right, *this);
    }
    default:
      break;
  }
  line_ = expr.line;
  if (expr.kind == Expr::Kind::attribute) return attribute(left, expr.name);
  return signed_value(left, expr.kind == Expr::Kind::negative);
}

Value Interpreter::evaluate_name(const Expr& expr) {
  if (const Value* value = scope_->find(expr.name)) return *value;
  if (const FunctionRow* row = find_function(expr.name)) return make_function(budget_, *row);
  return make_undefined(budget_, "'" + expr.name + "' is undefined");
}

Value Interpreter::evaluate_parts(const Expr& expr) {
  const Reservation held(budget_, expr.parts.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(expr.parts.size());
  for (const ExprPtr& part : expr.parts) items.push_back(evaluate(*part));
  return expr.kind == Expr::Kind::list ? make_list(budget_, std::move(items)) : make_tuple(budget_, std::move(items));
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  const Reservation held(budget_, expr.parts.size() * sizeof(Value));
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(expr.parts.size() / 2);
  for (std::size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    Value key = evaluate(*expr.parts[i]);
    entries.emplace_back(std::move(key), evaluate(*expr.parts[i + 1]));
  }
  line_ = expr.line;
  return make_dict(budget_, std::move(entries));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.parts[0]);
  Value bounds[3];
  for (int i = 0; i < 3; ++i)
    if (expr.parts[static_cast<std::size_t>(i) + 1]) bounds[i] = evaluate(*expr.parts[static_cast<std::size_t>(i) + 1]);
  line_ = expr.line;
  return slice(object, bounds[0], bounds[1], bounds[2], budget_);
}

Value Interpreter::evaluate_call(const Expr& expr) {
  const Expr& callee = *expr.parts[0];
  if (callee.kind != Expr::Kind::attribute) {
    const Value function = evaluate(callee);
    Arguments arguments = evaluate(expr.arguments);
    line_ = expr.line;
    return call(function, std::move(arguments));
  }
  const Value self = evaluate(*callee.parts[0]);
  line_ = callee.line;
  if (is_callable_method(self, callee.name)) {  // without making a method object first
    Arguments arguments = evaluate(expr.arguments);
    line_ = expr.line;
    return call_method(*this, self, callee.name, arguments);
  }
  const Value function = attribute(self, callee.name);
  Arguments arguments = evaluate(expr.arguments);
  line_ = expr.line;
  return call(function, std::move(arguments));
}

Value Interpreter::evaluate_filter(const Expr& expr) {
  const Value input = expr.parts[0] ? evaluate(*expr.parts[0]) : std::move(block_text_);
  Arguments arguments = evaluate(expr.arguments);
  line_ = expr.line;
  if (!expr.filter) fail(unknown_filter(expr.name));
  return expr.filter(*this, input, arguments);
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.parts[0]);
  Arguments arguments = evaluate(expr.arguments);
  line_ = expr.line;
  if (!expr.test) fail(unknown_test(expr.name));
  return Value(expr.test(*this, input, arguments));
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.parts[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.parts[i + 1]);
    line_ = expr.line;
    if (!compare(expr.ops[i], left, right, budget_)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  TextBuilder out(budget_);
  for (const ExprPtr& part : expr.parts) write_text(out, evaluate(*part), budget_);
  return text(out.take());
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truth(evaluate(*expr.parts[1]))) return evaluate(*expr.parts[0]);
  if (expr.parts[2]) return evaluate(*expr.parts[2]);
  return make_undefined(budget_, "an 'if' without 'else' has no value, because its condition is false");
}

}  // namespace octavo::jinja
