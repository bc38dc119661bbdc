#include "text/jinja/parser.h"

namespace octavo::jinja {
namespace {

// Walks a program. `lenient`: inside a condition, where a template may ask first whether a filter exists.
class NameChecker {
 public:
  void body(const Body& statements, bool lenient) {
    for (const auto& statement : statements) visit(*statement, lenient);
  }

 private:
  void visit(const Stmt& statement, bool lenient) {
    const bool conditional = statement.kind == Stmt::Kind::condition;
    for (const Branch& branch : statement.branches) {
      expr(branch.test.get(), true);
      body(branch.body, true);
    }
    expr(statement.expr.get(), lenient);
    expr(statement.test.get(), lenient);
    for (const auto& [target, value] : statement.assignments) expr(value.get(), lenient);
    for (const Parameter& parameter : statement.parameters) expr(parameter.fallback.get(), lenient);
    body(statement.body, conditional);
    body(statement.other, conditional);
  }

  void expr(const Expr* node, bool lenient) {
    if (!node) return;
    if (!lenient && node->kind == Expr::Kind::filter && !node->filter)
      throw Failure{unknown_filter(node->name), node->line};
    if (!lenient && node->kind == Expr::Kind::test && !node->test) throw Failure{unknown_test(node->name), node->line};
    lenient |= node->kind == Expr::Kind::conditional;
    for (const ExprPtr& part : node->parts) expr(part.get(), lenient);
    for (const ExprPtr& part : node->arguments.positional) expr(part.get(), lenient);
    for (const auto& [name, part] : node->arguments.named) expr(part.get(), lenient);
    expr(node->arguments.star.get(), lenient);
    expr(node->arguments.double_star.get(), lenient);
  }
};

}  // namespace

Program parse_program(std::string_view source) {
  Program program;
  program.body = Parser(tokenize(source)).parse();
  check_names(program);
  return program;
}

void check_names(const Program& program) { NameChecker().body(program.body, false); }

}  // namespace octavo::jinja
