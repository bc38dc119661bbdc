#include "text/jinja/interpreter.h"

#include "text/jinja/render.h"

namespace octavo::jinja {

Interpreter::Interpreter(const Program& program, Budget& budget, std::size_t max_output_bytes, const std::tm& now)
    : program_(program),
      budget_(budget),
      max_output_bytes_(max_output_bytes),
      now_(now),
      scope_(make_object<Scope>(budget, 0)) {}

Interpreter::~Interpreter() {
  for (const auto& object : kept_) object->forget();
}

std::string Interpreter::run() {
  run_body(program_.body);
  return std::move(result_);
}

void Interpreter::write(std::string_view text) {
  if (out_ != &result_)
    budget_.take(text.size());  // given back by the capture
  else if (text.size() > max_output_bytes_ - out_->size())
    fail("the prompt is longer than " + std::to_string(max_output_bytes_) + " bytes");
  budget_.scan(text.size());
  *out_ += text;
}

void Interpreter::write(const Value& value) {
  if (value.is_string())
    write(value.text());
  else if (!value.is_undefined())
    write(to_text(value, budget_));
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const auto& statement : body)
    if (const Flow flow = run_statement(*statement); flow != Flow::next) return flow;
  return Flow::next;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& statement) {
  const DepthGuard depth(budget_);
  budget_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case Stmt::Kind::text:
      write(statement.text);
      return Flow::next;
    case Stmt::Kind::output:
      write(evaluate(*statement.expr));
      return Flow::next;
    case Stmt::Kind::condition:
      return run_condition(statement);
    case Stmt::Kind::loop:
      return run_loop(statement);
    case Stmt::Kind::assign:
      run_assign(statement);
      return Flow::next;
    case Stmt::Kind::capture:
      return run_capture(statement);
    case Stmt::Kind::with:
      return run_with(statement);
    case Stmt::Kind::macro:
      scope_->set(statement.name, make_macro(statement));
      return Flow::next;
    case Stmt::Kind::call:
      run_call_block(statement);
      return Flow::next;
    case Stmt::Kind::filter:
      return run_filter_block(statement);
    case Stmt::Kind::scope: {
      const Inner inner(*this);
      return run_body(statement.body);
    }
    case Stmt::Kind::break_loop:
      return Flow::break_loop;
    case Stmt::Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_condition(const Stmt& statement) {
  for (const Branch& branch : statement.branches)
    if (!branch.test || truth(evaluate(*branch.test))) return run_body(branch.body);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& statement) {
  Value source = evaluate(*statement.expr);
  line_ = statement.line;
  return run_elements(statement, make_loop(statement, std::move(source), scope_, 0));
}

std::shared_ptr<Loop> Interpreter::make_loop(const Stmt& statement, Value source, const std::shared_ptr<Scope>& outer,
                                             int level) {
  if (source.is(Kind::none)) fail("'for' cannot iterate over None");
  auto loop = make_object<Loop>(budget_, sizeof(Cursor));
  hold(*loop, source);
  loop->statement = &statement;
  loop->cursor = std::make_unique<Cursor>(source, budget_);
  loop->source = std::move(source);
  loop->level = level;
  if (statement.recursive || statement.test) {
    keep_scope(outer);
    loop->outer = outer;
  }
  if (statement.test) {
    loop->accepts = [this, &statement, outer](const Value& element) {
      const DepthGuard depth(budget_);
      const Inner inner(*this, outer);
      assign(statement.target, element);
      return truth(evaluate(*statement.test));
    };
  }
  return loop;
}

Interpreter::Flow Interpreter::run_elements(const Stmt& statement, const std::shared_ptr<Loop>& loop) {
  const Value shown(Kind::loop, loop);
  bool completed = false;  // one run of the body: Jinja takes `else` also when each one ended in break or continue
  while (loop->advance()) {
    const Inner inner(*this);
    line_ = statement.line;
    assign(statement.target, loop->current);
    scope_->set("loop", shown);
    const Flow flow = run_body(statement.body);
    if (flow == Flow::break_loop) break;
    completed |= flow == Flow::next;
  }
  if (completed) return Flow::next;
  const Inner inner(*this);
  return run_body(statement.other);
}

Interpreter::Flow Interpreter::run_with(const Stmt& statement) {
  std::vector<Value> values;
  for (const auto& [target, expr] : statement.assignments) values.push_back(evaluate(*expr));
  const Inner inner(*this);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.assignments[i].first, std::move(values[i]));
  return run_body(statement.body);
}

Interpreter::Flow Interpreter::run_capture(const Stmt& statement) {
  Value value;
  {
    Capture capture(*this);
    const Inner inner(*this);
    if (const Flow flow = run_body(statement.body); flow != Flow::next) return flow;
    value = capture.take();
    if (statement.expr) {
      block_text_ = std::move(value);
      value = evaluate(*statement.expr);
    }
  }
  line_ = statement.line;
  assign(statement.target, std::move(value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_filter_block(const Stmt& statement) {
  Value value;
  {
    Capture capture(*this);
    const Inner inner(*this);
    if (const Flow flow = run_body(statement.body); flow != Flow::next) return flow;
    block_text_ = capture.take();
    value = evaluate(*statement.expr);
  }
  write(value);
  return Flow::next;
}

void Interpreter::run_assign(const Stmt& statement) {
  Value value = evaluate(*statement.expr);
  line_ = statement.line;
  assign(statement.target, std::move(value));
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.kind == Target::Kind::name) return scope_->set(target.name, std::move(value));
  if (target.kind == Target::Kind::attribute) return assign_attribute(target, std::move(value));
  const std::vector<Value> parts = to_items(value, budget_);
  if (parts.size() != target.parts.size())
    fail("cannot give " + std::to_string(parts.size()) + " values to " + std::to_string(target.parts.size()) +
         " names");
  for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
}

void Interpreter::assign_attribute(const Target& target, Value value) {
  const Value* space = scope_->find(target.name);
  if (!space || !space->is(Kind::name_space))
    fail("'" + target.name + "." + target.attribute + "' cannot be set: '" + target.name + "' is no namespace");
  space->as<Namespace>().set(target.attribute, std::move(value));
}

}  // namespace octavo::jinja
