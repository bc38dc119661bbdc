#include <algorithm>
#include <array>

#include "text/jinja/parser.h"

namespace octavo::jinja {
namespace {

constexpr std::array<std::string_view, 6> kOtherTemplates = {"include", "import", "from",
                                                             "extends", "block",  "autoescape"};

const char* type_text(Token::Type type) {
  switch (type) {
    case Token::Type::block_end:
      return "'%}'";
    case Token::Type::variable_end:
      return "'}}'";
    default:
      return "a name";
  }
}

}  // namespace

void Parser::refuse(const std::string& message, int line) const {
  throw Failure{message, line != 0 ? line : current().line};
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  take();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) refuse("expected '" + std::string(op) + "', but found " + describe(current()));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) refuse("expected '" + std::string(name) + "', but found " + describe(current()));
}

void Parser::expect(Token::Type type) {
  if (current().type != type) refuse(std::string("expected ") + type_text(type) + ", but found " + describe(current()));
  take();
}

std::string Parser::expect_identifier() {
  if (current().type != Token::Type::name) refuse("expected a name, but found " + describe(current()));
  return take().text;
}

Body Parser::parse() {
  Body body;
  statements(body, {});
  return body;
}

// Reads until a tag of `ends`, which stays the current word; the opening '%{' before it is taken.
Body Parser::body_until(std::initializer_list<std::string_view> ends, std::string_view opener, int line) {
  const Nest nest(*this);
  Body body;
  skip_op(":");
  expect(Token::Type::block_end);
  statements(body, ends);
  if (current().type == Token::Type::end)
    refuse("'{% " + std::string(opener) + " %}' is never closed: '{% " + std::string(*(ends.end() - 1)) +
               " %}' is missing",
           line);
  return body;
}

void Parser::statements(Body& body, std::initializer_list<std::string_view> ends) {
  while (current().type != Token::Type::end) {
    const int line = current().line;
    if (current().type == Token::Type::data) {
      auto node = make_statement(Stmt::Kind::text, line);
      node->text = take().text;
      body.push_back(std::move(node));
    } else if (current().type == Token::Type::variable_begin) {
      take();
      auto node = make_statement(Stmt::Kind::output, line);
      node->expr = tuple(true, {}, false);
      expect(Token::Type::variable_end);
      body.push_back(std::move(node));
    } else {
      expect(Token::Type::block_begin);
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return current().is_name(end); })) return;
      if (skip_name("print"))
        print_statement(body, line);
      else
        body.push_back(statement());
      expect(Token::Type::block_end);
    }
  }
}

std::unique_ptr<Stmt> Parser::make_statement(Stmt::Kind kind, int line) const {
  auto node = std::make_unique<Stmt>();
  node->kind = kind;
  node->line = line;
  return node;
}

std::unique_ptr<Stmt> Parser::statement() {
  const Nest nest(*this);
  const Token token = current();
  if (token.type != Token::Type::name) refuse("a tag begins with its name, but found " + describe(token));
  take();
  const std::string& tag = token.text;
  if (tag == "if") return if_statement(token.line);
  if (tag == "for") return for_statement(token.line);
  if (tag == "set") return set_statement(token.line);
  if (tag == "with") return with_statement(token.line);
  if (tag == "macro") return macro_statement(token.line);
  if (tag == "call") return call_statement(token.line);
  if (tag == "filter") return filter_statement(token.line);
  if (tag == "generation") return generation_statement(token.line);
  if (tag == "break") return loop_control(Stmt::Kind::break_loop, token.line);
  if (tag == "continue") return loop_control(Stmt::Kind::continue_loop, token.line);
  if (std::find(kOtherTemplates.begin(), kOtherTemplates.end(), tag) != kOtherTemplates.end())
    refuse("the tag '" + tag + "' is not supported: a chat template stands alone", token.line);
  refuse("unknown tag '" + tag + "'", token.line);
}

std::unique_ptr<Stmt> Parser::if_statement(int line) {
  auto node = make_statement(Stmt::Kind::condition, line);
  while (true) {
    Branch branch;
    branch.test = tuple(false, {}, false);
    branch.body = body_until({"elif", "else", "endif"}, "if", line);
    node->branches.push_back(std::move(branch));
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      Branch last;
      last.body = body_until({"endif"}, "if", line);
      node->branches.push_back(std::move(last));
    }
    expect_name("endif");
    return node;
  }
}

std::unique_ptr<Stmt> Parser::for_statement(int line) {
  auto node = make_statement(Stmt::Kind::loop, line);
  ++loops_;
  node->target = target(false, "in");
  expect_name("in");
  node->expr = tuple(false, "recursive", false);
  if (skip_name("if")) node->test = expression();
  node->recursive = skip_name("recursive");
  node->body = body_until({"else", "endfor"}, "for", line);
  --loops_;
  if (skip_name("else")) node->other = body_until({"endfor"}, "for", line);
  expect_name("endfor");
  return node;
}

std::unique_ptr<Stmt> Parser::loop_control(Stmt::Kind kind, int line) {
  if (loops_ == 0) refuse("'break' and 'continue' stand only inside a loop", line);
  return make_statement(kind, line);
}

void Parser::print_statement(Body& body, int line) {
  for (bool first = true; current().type != Token::Type::block_end; first = false) {
    if (!first) expect_op(",");
    auto node = make_statement(Stmt::Kind::output, line);
    node->expr = expression();
    body.push_back(std::move(node));
  }
}

}  // namespace octavo::jinja
