// Parser: tokens to a Program. Nesting and the depth of trees are bounded, so that neither parsing nor evaluating nor
// freeing a hostile template exhausts the stack. Refuses by name the tags that need other templates.
//
// Precedence is Jinja's, not Python's: `~` binds tighter than + and -, filters tighter than everything but postfixes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/token.h"

namespace octavo::jinja {

// Fails with a line.
Program parse_program(std::string_view source);

// Fails on unknown filters and tests outside of conditions; inside, Jinja finds them only when they run.
void check_names(const Program& program);

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Body parse();

 private:
  // Words (parser_statements.cc).
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(Token::Type type);
  std::string expect_identifier();
  [[noreturn]] void refuse(const std::string& message, int line = 0) const;

  // Statements (parser_statements.cc, parser_blocks.cc).
  Body body_until(std::initializer_list<std::string_view> ends, std::string_view opener, int line);
  void statements(Body& body, std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> statement();
  std::unique_ptr<Stmt> make_statement(Stmt::Kind kind, int line) const;
  std::unique_ptr<Stmt> if_statement(int line);
  std::unique_ptr<Stmt> for_statement(int line);
  std::unique_ptr<Stmt> set_statement(int line);
  std::unique_ptr<Stmt> with_statement(int line);
  std::unique_ptr<Stmt> macro_statement(int line);
  std::unique_ptr<Stmt> call_statement(int line);
  std::unique_ptr<Stmt> filter_statement(int line);
  std::unique_ptr<Stmt> generation_statement(int line);
  std::unique_ptr<Stmt> loop_control(Stmt::Kind kind, int line);
  void print_statement(Body& body, int line);
  void signature(Stmt& statement);
  void macro_body(Stmt& statement, std::string_view end, std::string_view opener);
  Target target(bool with_attribute, std::string_view end_name);
  Target simple_target(bool with_attribute);

  // Expressions (parser.cc).
  ExprPtr expression(bool with_condition = true);
  ExprPtr tuple(bool with_condition, std::string_view end_name, bool in_parentheses);
  ExprPtr condition();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscribed(ExprPtr node, int line);
  ExprPtr call(ExprPtr node);
  CallArguments call_arguments();
  ExprPtr filter(ExprPtr node);
  ExprPtr test(ExprPtr node);
  ExprPtr make(Expr::Kind kind, int line, std::vector<ExprPtr> parts = {});
  ExprPtr binary(Op op, int line, ExprPtr left, ExprPtr right);
  void adopt(Expr& node, const ExprPtr& part) const;
  void adopt(Expr& node, const CallArguments& arguments) const;

  class Nest;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;                                                          // around this place, within its macro
  bool sees_caller_ = false, sees_varargs_ = false, sees_kwargs_ = false;  // names read since the macro began
};

class Parser::Nest {
 public:
  explicit Nest(Parser& parser);
  ~Nest() { --parser_.nesting_; }

 private:
  Parser& parser_;
};

}  // namespace octavo::jinja
