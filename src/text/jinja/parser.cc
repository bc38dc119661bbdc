#include "text/jinja/parser.h"

#include <algorithm>

namespace octavo::jinja {
namespace {

constexpr int kMaxNesting = 150;
constexpr int kMaxExprDepth = 400;  // "a + a + a + ..." nests to the left

std::vector<ExprPtr> parts_of(ExprPtr a, ExprPtr b = nullptr, ExprPtr c = nullptr) {
  std::vector<ExprPtr> parts;
  parts.push_back(std::move(a));
  if (b) parts.push_back(std::move(b));
  if (c) parts.push_back(std::move(c));
  return parts;
}

struct OpRow {
  std::string_view text;
  Op op;
};
constexpr OpRow kCompareOps[] = {{"==", Op::equal},      {"!=", Op::not_equal}, {"<", Op::less},
                                 {"<=", Op::less_equal}, {">", Op::greater},    {">=", Op::greater_equal}};
constexpr OpRow kSumOps[] = {{"+", Op::add}, {"-", Op::sub}};
constexpr OpRow kProductOps[] = {{"*", Op::mul}, {"/", Op::div}, {"//", Op::floor_div}, {"%", Op::mod}};

template <std::size_t kSize>
const OpRow* find_op(const OpRow (&rows)[kSize], const Token& token) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const OpRow& r) { return token.is_op(r.text); });
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

Parser::Nest::Nest(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting)
    parser_.refuse("blocks and expressions are nested deeper than " + std::to_string(kMaxNesting) + " levels");
}

void Parser::adopt(Expr& node, const ExprPtr& part) const {
  if (!part) return;
  node.depth = std::max(node.depth, part->depth + 1);
  if (node.depth > kMaxExprDepth)
    refuse("an expression has more than " + std::to_string(kMaxExprDepth) + " operations in a row");
}

void Parser::adopt(Expr& node, const CallArguments& arguments) const {
  for (const ExprPtr& part : arguments.positional) adopt(node, part);
  for (const auto& [name, part] : arguments.named) adopt(node, part);
  adopt(node, arguments.star);
  adopt(node, arguments.double_star);
}

ExprPtr Parser::make(Expr::Kind kind, int line, std::vector<ExprPtr> parts) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  for (const ExprPtr& part : parts) adopt(*node, part);
  node->parts = std::move(parts);
  return node;
}

ExprPtr Parser::binary(Op op, int line, ExprPtr left, ExprPtr right) {
  ExprPtr node = make(Expr::Kind::binary, line, parts_of(std::move(left), std::move(right)));
  node->ops = {op};
  return node;
}

ExprPtr Parser::expression(bool with_condition) {
  const Nest nest(*this);
  return with_condition ? condition() : logical_or();
}

ExprPtr Parser::tuple(bool with_condition, std::string_view end_name, bool in_parentheses) {
  const int line = current().line;
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  while (true) {
    if (!parts.empty()) expect_op(",");
    const Token& token = current();
    if (token.type == Token::Type::variable_end || token.type == Token::Type::block_end || token.is_op(")")) break;
    if (!end_name.empty() && token.is_name(end_name)) break;
    parts.push_back(expression(with_condition));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!parts.empty()) return std::move(parts[0]);
    if (!in_parentheses) refuse("an expression is missing before " + describe(current()));
  }
  return make(Expr::Kind::tuple, line, std::move(parts));
}

ExprPtr Parser::condition() {
  int line = current().line;
  ExprPtr node = logical_or();
  while (skip_name("if")) {
    ExprPtr test = logical_or();
    ExprPtr other = skip_name("else") ? expression() : nullptr;
    std::vector<ExprPtr> parts = parts_of(std::move(node), std::move(test));
    parts.push_back(std::move(other));
    node = make(Expr::Kind::conditional, line, std::move(parts));
    line = current().line;
  }
  return node;
}

ExprPtr Parser::logical_or() {
  ExprPtr left = logical_and();
  for (int line = current().line; skip_name("or"); line = current().line) {
    ExprPtr right = logical_and();
    left = make(Expr::Kind::logical_or, line, parts_of(std::move(left), std::move(right)));
  }
  return left;
}

ExprPtr Parser::logical_and() {
  ExprPtr left = logical_not();
  for (int line = current().line; skip_name("and"); line = current().line) {
    ExprPtr right = logical_not();
    left = make(Expr::Kind::logical_and, line, parts_of(std::move(left), std::move(right)));
  }
  return left;
}

ExprPtr Parser::logical_not() {
  const int line = current().line;
  if (!skip_name("not")) return compare();
  const Nest nest(*this);
  return make(Expr::Kind::logical_not, line, parts_of(logical_not()));
}

ExprPtr Parser::compare() {
  const int line = current().line;
  std::vector<ExprPtr> parts = parts_of(sum());
  std::vector<Op> ops;
  while (true) {
    if (const OpRow* row = find_op(kCompareOps, current())) {
      take();
      ops.push_back(row->op);
    } else if (skip_name("in")) {
      ops.push_back(Op::in);
    } else if (current().is_name("not") && ahead().is_name("in")) {
      take();
      take();
      ops.push_back(Op::not_in);
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (ops.empty()) return std::move(parts[0]);
  ExprPtr node = make(Expr::Kind::compare, line, std::move(parts));
  node->ops = std::move(ops);
  return node;
}

ExprPtr Parser::sum() {
  ExprPtr left = concat();
  while (const OpRow* row = find_op(kSumOps, current())) {
    const int line = take().line;
    ExprPtr right = concat();
    left = binary(row->op, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts = parts_of(product());
  while (skip_op("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make(Expr::Kind::concat, line, std::move(parts));
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  while (const OpRow* row = find_op(kProductOps, current())) {
    const int line = take().line;
    ExprPtr right = power();
    left = binary(row->op, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::power() {
  ExprPtr left = unary(true);
  while (current().is_op("**")) {
    const int line = take().line;
    ExprPtr right = unary(true);
    left = binary(Op::power, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const int line = current().line;
  const bool negative = current().is_op("-");
  ExprPtr node;
  if (negative || current().is_op("+")) {
    const Nest nest(*this);
    take();
    node = make(negative ? Expr::Kind::negative : Expr::Kind::positive, line, parts_of(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::primary() {
  const int line = current().line;
  ExprPtr node;
  switch (current().type) {
    case Token::Type::name:
      return name_or_constant();
    case Token::Type::string: {
      std::string text;
      while (current().type == Token::Type::string) text += take().text;
      node = make(Expr::Kind::constant, line);
      node->value = make_constant_text(std::move(text));
      return node;
    }
    case Token::Type::integer:
      node = make(Expr::Kind::constant, line);
      node->value = Value(take().integer);
      return node;
    case Token::Type::real:
      node = make(Expr::Kind::constant, line);
      node->value = Value(take().real);
      return node;
    default:
      break;
  }
  if (current().is_op("[")) return list();
  if (current().is_op("{")) return dict();
  if (current().type == Token::Type::end) refuse("the template ends where a value should stand");
  if (!skip_op("(")) refuse("unexpected " + describe(current()));
  node = tuple(true, {}, true);
  expect_op(")");
  return node;
}

ExprPtr Parser::name_or_constant() {
  const Token token = take();
  const std::string& name = token.text;
  ExprPtr node = make(Expr::Kind::constant, token.line);
  if (name == "true" || name == "True") {
    node->value = Value(true);
  } else if (name == "false" || name == "False") {
    node->value = Value(false);
  } else if (name != "none" && name != "None") {
    node->kind = Expr::Kind::name;
    node->name = name;
    sees_caller_ |= name == "caller";
    sees_varargs_ |= name == "varargs";
    sees_kwargs_ |= name == "kwargs";
  }
  return node;
}

ExprPtr Parser::list() {
  const int line = take().line;
  std::vector<ExprPtr> parts;
  while (!current().is_op("]")) {
    if (!parts.empty()) expect_op(",");
    if (current().is_op("]")) break;
    parts.push_back(expression());
  }
  expect_op("]");
  return make(Expr::Kind::list, line, std::move(parts));
}

ExprPtr Parser::dict() {
  const int line = take().line;
  std::vector<ExprPtr> parts;
  while (!current().is_op("}")) {
    if (!parts.empty()) expect_op(",");
    if (current().is_op("}")) break;
    parts.push_back(expression());
    expect_op(":");
    parts.push_back(expression());
  }
  expect_op("}");
  return make(Expr::Kind::dict, line, std::move(parts));
}

}  // namespace octavo::jinja
