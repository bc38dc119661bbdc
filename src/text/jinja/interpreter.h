// Interpreter: one rendering of a Program. Not shared between threads; the Program is.
//
// Filters, tests, methods and functions get it as `in` and use its public part: Python's attribute and item access
// under the sandbox's rules, calls, and the budget. Everything fails by throwing Failure.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/loop.h"
#include "text/jinja/scope.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

struct Macro : Object {
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;  // where it was defined
};

class Interpreter {
 public:
  Interpreter(const Program& program, Budget& budget, std::size_t max_output_bytes, const std::tm& now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void define(const std::string& name, Value value) { scope_->set(name, std::move(value)); }
  std::string run();
  int line() const { return line_; }

  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  Value text(std::string bytes, bool safe = false) { return make_text(budget_, std::move(bytes), safe); }

  Value attribute(const Value& object, const std::string& name);  // object.name
  Value item(const Value& object, const Value& key);              // object[key]
  Value call(const Value& callee, Arguments arguments);
  // Registers an object that can come to refer to itself; it lives until the rendering ends.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

 private:
  enum class Flow { next, break_loop, continue_loop };
  class Inner;    // a scope within the current one
  class Capture;  // output goes into a text of its own

  // Statements (interpreter.cc).
  Flow run_body(const Body& body);
  Flow run_statement(const Stmt& statement);
  Flow run_condition(const Stmt& statement);
  Flow run_loop(const Stmt& statement);
  Flow run_elements(const Stmt& statement, const std::shared_ptr<Loop>& loop);
  Flow run_with(const Stmt& statement);
  Flow run_capture(const Stmt& statement);
  Flow run_filter_block(const Stmt& statement);
  void run_assign(const Stmt& statement);
  void run_call_block(const Stmt& statement);
  std::shared_ptr<Loop> make_loop(const Stmt& statement, Value source, const std::shared_ptr<Scope>& outer, int level);
  void assign(const Target& target, Value value);
  void assign_attribute(const Target& target, Value value);
  void write(std::string_view text);
  void write(const Value& value);

  // Calls (calls.cc).
  Value make_macro(const Stmt& statement);
  Value call_macro(const Macro& macro, Arguments arguments);
  void bind_macro(const Macro& macro, Arguments& arguments);
  Value call_loop(const Value& loop, Arguments& arguments);
  Arguments evaluate(const CallArguments& arguments);
  void keep_scope(const std::shared_ptr<Scope>& scope);

  // Expressions (evaluator.cc).
  Value evaluate(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_parts(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_filter(const Expr& expr);
  Value evaluate_test(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_operator(const Expr& expr);

  const Program& program_;
  Budget& budget_;
  std::size_t max_output_bytes_;
  std::tm now_;
  std::shared_ptr<Scope> scope_;
  std::string result_;
  std::string* out_ = &result_;
  Value block_text_;  // what a filter block filters
  int line_ = 0;
  std::vector<std::shared_ptr<Object>> kept_;
};

class Interpreter::Inner {
 public:
  Inner(Interpreter& in, std::shared_ptr<Scope> parent) : in_(in), before_(in.scope_) {
    in_.scope_ = make_object<Scope>(in_.budget_, 0);
    in_.scope_->parent = std::move(parent);
  }
  explicit Inner(Interpreter& in) : Inner(in, in.scope_) {}
  ~Inner() { in_.scope_ = std::move(before_); }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Interpreter& in_;
  std::shared_ptr<Scope> before_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& in) : in_(in), before_(in.out_) { in_.out_ = &text_; }
  ~Capture() {
    in_.budget_.give_back(text_.size());
    in_.out_ = before_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value take() {
    in_.budget_.give_back(text_.size());
    return in_.text(std::exchange(text_, {}));
  }

 private:
  Interpreter& in_;
  std::string* before_;
  std::string text_;
};

}  // namespace octavo::jinja
