#include <algorithm>

#include "text/jinja/parser.h"

namespace octavo::jinja {
namespace {

constexpr std::size_t kMaxArguments = 1000;

std::vector<ExprPtr> one_part(ExprPtr part) {
  std::vector<ExprPtr> parts;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace

ExprPtr Parser::postfix(ExprPtr node) {
  while (true) {
    if (current().is_op(".") || current().is_op("["))
      node = subscript(std::move(node));
    else if (current().is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (skip_op("|"))
      node = filter(std::move(node));
    else if (skip_name("is"))
      node = test(std::move(node));
    else if (current().is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::subscript(ExprPtr node) {
  const Token opener = take();
  if (opener.is_op(".")) {
    const Token key = take();
    if (key.type == Token::Type::name) {
      node = make(Expr::Kind::attribute, opener.line, one_part(std::move(node)));
      node->name = key.text;
      return node;
    }
    if (key.type != Token::Type::integer) refuse("a name or number is missing after '.'", key.line);
    ExprPtr index = make(Expr::Kind::constant, key.line);
    index->value = Value(key.integer);
    std::vector<ExprPtr> parts = one_part(std::move(node));
    parts.push_back(std::move(index));
    return make(Expr::Kind::item, opener.line, std::move(parts));
  }
  node = subscribed(std::move(node), opener.line);
  expect_op("]");
  return node;
}

// What stands between [ and ]: a key, several keys that make a tuple, or a slice.
ExprPtr Parser::subscribed(ExprPtr node, int line) {
  std::vector<ExprPtr> parts = one_part(std::move(node));
  const auto bound = [&](bool last) {
    const bool none = current().is_op("]") || current().is_op(":");
    parts.push_back(none ? nullptr : expression());
    if (!last && !skip_op(":")) return false;
    return true;
  };
  if (current().is_op("]")) refuse("a key is missing between '[' and ']'");
  if (!current().is_op(":")) {
    ExprPtr key = expression();
    if (!current().is_op(":")) {
      if (current().is_op(",")) {
        std::vector<ExprPtr> keys = one_part(std::move(key));
        while (skip_op(",")) keys.push_back(expression());
        key = make(Expr::Kind::tuple, line, std::move(keys));
      }
      parts.push_back(std::move(key));
      return make(Expr::Kind::item, line, std::move(parts));
    }
    parts.push_back(std::move(key));
  } else {
    parts.push_back(nullptr);
  }
  expect_op(":");
  if (bound(false))
    bound(true);
  else
    parts.push_back(nullptr);
  return make(Expr::Kind::slice, line, std::move(parts));
}

ExprPtr Parser::call(ExprPtr node) {
  const int line = current().line;
  CallArguments arguments = call_arguments();
  node = make(Expr::Kind::call, line, one_part(std::move(node)));
  adopt(*node, arguments);
  node->arguments = std::move(arguments);
  return node;
}

CallArguments Parser::call_arguments() {
  CallArguments arguments;
  const auto ensure = [&](bool good) {
    if (!good) refuse("the arguments of a call stand in the wrong order");
  };
  expect_op("(");
  bool first = true;
  while (!current().is_op(")")) {
    if (!first) expect_op(",");
    if (current().is_op(")")) break;
    first = false;
    if (skip_op("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = expression();
    } else if (skip_op("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = expression();
    } else if (current().type == Token::Type::name && ahead().is_op("=")) {
      ensure(!arguments.double_star);
      std::string name = take().text;
      take();
      const auto same = [&](const auto& named) { return named.first == name; };
      if (std::any_of(arguments.named.begin(), arguments.named.end(), same))
        refuse("the argument '" + name + "' is given twice");
      arguments.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(expression());
      if (arguments.positional.size() > kMaxArguments) refuse("a call has too many arguments");
    }
  }
  expect_op(")");
  return arguments;
}

// Behind the "|". A null node is the text of the block that is filtered.
ExprPtr Parser::filter(ExprPtr node) {
  const int line = current().line;
  std::string name = expect_identifier();
  while (skip_op(".")) name += "." + expect_identifier();
  CallArguments arguments;
  if (current().is_op("(")) arguments = call_arguments();
  node = make(Expr::Kind::filter, line, one_part(std::move(node)));
  adopt(*node, arguments);
  node->filter = find_filter(name);
  node->name = std::move(name);
  node->arguments = std::move(arguments);
  return node;
}

// Behind the "is".
ExprPtr Parser::test(ExprPtr node) {
  const int line = current().line;
  const bool negated = skip_name("not");
  std::string name = expect_identifier();
  while (skip_op(".")) name += "." + expect_identifier();
  CallArguments arguments;
  const Token& token = current();
  const bool starts_value = token.type == Token::Type::name || token.type == Token::Type::string ||
                            token.type == Token::Type::integer || token.type == Token::Type::real || token.is_op("[") ||
                            token.is_op("{");
  if (token.is_op("(")) {
    arguments = call_arguments();
  } else if (starts_value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) refuse("tests with 'is' cannot be chained");
    const Nest nest(*this);
    arguments.positional.push_back(postfix(primary()));
  }
  node = make(Expr::Kind::test, line, one_part(std::move(node)));
  adopt(*node, arguments);
  node->test = find_test(name);
  node->name = std::move(name);
  node->arguments = std::move(arguments);
  return negated ? make(Expr::Kind::logical_not, line, one_part(std::move(node))) : std::move(node);
}

}  // namespace octavo::jinja
