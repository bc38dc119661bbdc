#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"

namespace octavo::jinja {
namespace {

void check_count(std::size_t num_arguments) {
  constexpr std::size_t kMaxArguments = 1000;
  if (num_arguments > kMaxArguments) fail("a call has more than " + std::to_string(kMaxArguments) + " arguments");
}

}  // namespace

// A scope that a macro or loop refers to is kept to the end: chains of them are then freed one by one.
void Interpreter::keep_scope(const std::shared_ptr<Scope>& scope) {
  if (scope->kept) return;
  scope->kept = true;
  keep(scope);
}

Value Interpreter::make_macro(const Stmt& statement) {
  keep_scope(scope_);
  auto macro = make_object<Macro>(budget_, 0);
  macro->statement = &statement;
  macro->scope = scope_;
  return Value(Kind::macro, std::move(macro));
}

void Interpreter::run_call_block(const Stmt& statement) {
  const Expr& call_expr = *statement.expr;
  const Value caller = make_macro(statement);
  const Value callee = evaluate(*call_expr.parts[0]);
  Arguments arguments = evaluate(call_expr.arguments);
  arguments.named.emplace_back("caller", caller);
  line_ = statement.line;
  write(call(callee, std::move(arguments)));
}

Arguments Interpreter::evaluate(const CallArguments& expressions) {
  Arguments arguments;
  arguments.positional.reserve(expressions.positional.size());
  for (const ExprPtr& expr : expressions.positional) arguments.positional.push_back(evaluate(*expr));
  if (expressions.star)
    for (Value& value : to_items(evaluate(*expressions.star), budget_))
      arguments.positional.push_back(std::move(value));
  check_count(arguments.positional.size());
  for (const auto& [name, expr] : expressions.named) arguments.named.emplace_back(name, evaluate(*expr));
  if (!expressions.double_star) return arguments;
  const Value extra = evaluate(*expressions.double_star);
  if (!extra.is(Kind::dict)) fail("what stands behind ** in a call must be a dict");
  check_count(extra.as<Dict>().entries.size());
  for (const auto& [key, value] : extra.as<Dict>().entries) {
    if (!key.is_string()) fail("the keys of a dict behind ** must be strings");
    budget_.step(1 + static_cast<std::int64_t>(expressions.named.size()));
    for (const auto& named : expressions.named)
      if (named.first == key.text()) fail("the argument '" + key.text() + "' is given twice");
    arguments.named.emplace_back(key.text(), value);
  }
  return arguments;
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  budget_.step();
  switch (callee.kind()) {
    case Kind::function:
      return callee.as<Function>().row->function(*this, arguments);
    case Kind::method:
      return call_method(*this, callee.as<Method>().self, callee.as<Method>().name, arguments);
    case Kind::macro:
      return call_macro(callee.as<Macro>(), std::move(arguments));
    case Kind::loop:
      return call_loop(callee, arguments);
    case Kind::joiner: {
      const Bound bound("a joiner", arguments, {}, 0);
      Joiner& joiner = callee.as<Joiner>();
      return std::exchange(joiner.used, true) ? joiner.separator : text("");
    }
    case Kind::undefined:
      fail(callee.as<Undefined>().message);
    default:
      fail(std::string("a value of type '") + type_name(callee) + "' cannot be called");
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments arguments) {
  const DepthGuard depth(budget_);
  const Inner inner(*this, macro.scope);
  bind_macro(macro, arguments);
  Capture capture(*this);
  run_body(macro.statement->body);
  return capture.take();
}

// Python's rules, and the three names that a macro gets only if it asks for them: caller, varargs, kwargs.
void Interpreter::bind_macro(const Macro& macro, Arguments& arguments) {
  const Stmt& statement = *macro.statement;
  const std::size_t num_positional = std::min(arguments.positional.size(), statement.parameters.size());
  const auto take_named = [&](const std::string& name) -> const Value* {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == name; });
    if (found == arguments.named.end()) return nullptr;
    scope_->set(name, std::move(found->second));
    arguments.named.erase(found);
    return scope_->find(name);
  };
  budget_.step(static_cast<std::int64_t>(statement.parameters.size() + arguments.named.size()));
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
    const Parameter& parameter = statement.parameters[i];
    if (i < num_positional)
      scope_->set(parameter.name, std::move(arguments.positional[i]));
    else if (take_named(parameter.name))
      continue;
    else if (parameter.fallback)
      scope_->set(parameter.name, evaluate(*parameter.fallback));
    else
      scope_->set(parameter.name, make_undefined(budget_, "parameter '" + parameter.name + "' was not provided"));
  }
  const std::string macro_name = "macro '" + statement.name + "'";
  if (statement.uses_caller && !take_named("caller"))
    scope_->set("caller", make_undefined(budget_, "no caller was given to " + macro_name));
  if (statement.uses_kwargs) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, value] : arguments.named) entries.emplace_back(text(name), std::move(value));
    scope_->set("kwargs", make_dict(budget_, std::move(entries)));
  } else if (!arguments.named.empty()) {
    fail(macro_name + " has no parameter '" + arguments.named[0].first + "'");
  }
  std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_positional),
                          arguments.positional.end());
  if (statement.uses_varargs)
    scope_->set("varargs", make_tuple(budget_, std::move(rest)));
  else if (!rest.empty())
    fail(macro_name + " takes at most " + std::to_string(statement.parameters.size()) + " arguments, but was given " +
         std::to_string(arguments.positional.size()));
}

// loop(children) in a recursive loop: its body once more, over other elements, as text.
Value Interpreter::call_loop(const Value& callee, Arguments& arguments) {
  const Loop& loop = callee.as<Loop>();
  if (!loop.statement->recursive) fail("'loop' can be called only in a loop marked 'recursive'");
  const Bound bound("loop", arguments, {"iterable"}, 1);
  const DepthGuard depth(budget_);
  const Inner inner(*this, loop.outer);
  Capture capture(*this);
  run_elements(*loop.statement, make_loop(*loop.statement, bound.at(0), loop.outer, loop.level + 1));
  return capture.take();
}

}  // namespace octavo::jinja
