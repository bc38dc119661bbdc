#include <algorithm>
#include <array>

#include "text/jinja/parser.h"

namespace octavo::jinja {

Target Parser::simple_target(bool with_attribute) {
  static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none", "True", "False", "None"};
  Target target;
  if (skip_op("(")) {
    const Nest nest(*this);
    target.kind = Target::Kind::tuple;
    bool comma = true;
    while (comma && !current().is_op(")")) {
      target.parts.push_back(simple_target(with_attribute));
      comma = skip_op(",");
    }
    if (!comma && target.parts.size() == 1 && skip_op(")")) {  // "(a)" is a
      Target only = std::move(target.parts[0]);
      return only;
    }
    expect_op(")");
    return target;
  }
  const int line = current().line;
  target.name = expect_identifier();
  if (std::find(kConstants.begin(), kConstants.end(), target.name) != kConstants.end())
    refuse("nothing can be assigned to '" + target.name + "'", line);
  if (with_attribute && skip_op(".")) {
    target.kind = Target::Kind::attribute;
    target.attribute = expect_identifier();
  } else if (loops_ > 0 && target.name == "loop") {
    refuse("'loop' cannot be assigned inside a loop", line);
  }
  return target;
}

// Names to assign to, with commas between them. `end_name` is the word behind them, if there is one.
Target Parser::target(bool with_attribute, std::string_view end_name) {
  Target first = simple_target(with_attribute);
  if (!current().is_op(",")) return first;
  Target all;
  all.kind = Target::Kind::tuple;
  all.parts.push_back(std::move(first));
  while (skip_op(",")) {
    if (current().type != Token::Type::name && !current().is_op("(")) break;  // a comma may end the list
    if (!end_name.empty() && current().is_name(end_name)) break;
    all.parts.push_back(simple_target(with_attribute));
  }
  return all;
}

std::unique_ptr<Stmt> Parser::set_statement(int line) {
  auto node = make_statement(Stmt::Kind::assign, line);
  node->target = target(true, {});
  if (skip_op("=")) {
    node->expr = tuple(true, {}, false);
    return node;
  }
  node->kind = Stmt::Kind::capture;
  while (skip_op("|")) node->expr = filter(std::move(node->expr));
  node->body = body_until({"endset"}, "set", line);
  expect_name("endset");
  return node;
}

std::unique_ptr<Stmt> Parser::with_statement(int line) {
  auto node = make_statement(Stmt::Kind::with, line);
  while (current().type != Token::Type::block_end) {
    if (!node->assignments.empty()) expect_op(",");
    Target name = simple_target(false);
    expect_op("=");
    node->assignments.emplace_back(std::move(name), expression());
  }
  node->body = body_until({"endwith"}, "with", line);
  expect_name("endwith");
  return node;
}

void Parser::signature(Stmt& statement) {
  expect_op("(");
  bool has_fallback = false;
  while (!current().is_op(")")) {
    if (!statement.parameters.empty()) expect_op(",");
    if (current().is_op(")")) break;
    Parameter parameter;
    parameter.name = expect_identifier();
    for (const Parameter& other : statement.parameters)
      if (other.name == parameter.name) refuse("the parameter '" + other.name + "' is given twice");
    if (skip_op("=")) {
      parameter.fallback = expression();
      has_fallback = true;
    } else if (has_fallback) {
      refuse("the parameter '" + parameter.name + "' needs a default, because the one before it has one");
    }
    statement.parameters.push_back(std::move(parameter));
  }
  expect_op(")");
}

// The body of a macro or call block, which starts a function of its own: the loops around it end at its border.
void Parser::macro_body(Stmt& statement, std::string_view end, std::string_view opener) {
  const int loops = std::exchange(loops_, 0);
  const bool caller = std::exchange(sees_caller_, false);
  const bool varargs = std::exchange(sees_varargs_, false);
  const bool kwargs = std::exchange(sees_kwargs_, false);
  statement.body = body_until({end}, opener, statement.line);
  expect_name(end);
  const auto has_parameter = [&](std::string_view name) {
    return std::any_of(statement.parameters.begin(), statement.parameters.end(),
                       [&](const Parameter& parameter) { return parameter.name == name; });
  };
  statement.uses_caller = sees_caller_ && !has_parameter("caller");
  statement.uses_varargs = sees_varargs_ && !has_parameter("varargs");
  statement.uses_kwargs = sees_kwargs_ && !has_parameter("kwargs");
  loops_ = loops;
  sees_caller_ |= caller;
  sees_varargs_ |= varargs;
  sees_kwargs_ |= kwargs;
}

std::unique_ptr<Stmt> Parser::macro_statement(int line) {
  auto node = make_statement(Stmt::Kind::macro, line);
  node->name = expect_identifier();
  signature(*node);
  macro_body(*node, "endmacro", "macro");
  return node;
}

std::unique_ptr<Stmt> Parser::call_statement(int line) {
  auto node = make_statement(Stmt::Kind::call, line);
  node->name = "caller";
  if (current().is_op("(")) signature(*node);
  node->expr = expression();
  if (node->expr->kind != Expr::Kind::call) refuse("'{% call %}' needs the call of a macro", line);
  macro_body(*node, "endcall", "call");
  return node;
}

std::unique_ptr<Stmt> Parser::filter_statement(int line) {
  auto node = make_statement(Stmt::Kind::filter, line);
  node->expr = filter(nullptr);
  while (skip_op("|")) node->expr = filter(std::move(node->expr));
  node->body = body_until({"endfilter"}, "filter", line);
  expect_name("endfilter");
  return node;
}

// Marks what an assistant said, for training; here its body is rendered in place.
std::unique_ptr<Stmt> Parser::generation_statement(int line) {
  auto node = make_statement(Stmt::Kind::scope, line);
  node->body = body_until({"endgeneration"}, "generation", line);
  expect_name("endgeneration");
  return node;
}

}  // namespace octavo::jinja
