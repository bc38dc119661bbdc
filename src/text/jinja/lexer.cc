#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/jinja/code_points.h"
#include "text/jinja/literal.h"
#include "text/jinja/token.h"

namespace octavo::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

// One kind of line end, and without the last one.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    add(Token::Type::end);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  [[noreturn]] void refuse(std::string message) const { throw Failure{std::move(message), line_}; }

  void advance(std::size_t num_bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + num_bytes, '\n'));
    at_ += num_bytes;
  }

  std::size_t space_size(std::size_t from) const {
    std::size_t at = from;
    while (at < source_.size()) {
      std::size_t behind = at;
      if (!is_space(decode_code_point(source_, behind))) break;
      at = behind;
    }
    return at - from;
  }

  Token& add(Token::Type type, std::string text = {}) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // Data up to a tag, with what the tag's sign or lstrip_blocks takes away from its end; then moves to the tag.
  void add_data(std::size_t end, char sign, bool is_variable) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip(text, false, true);
    } else if (sign != '+' && !is_variable) {
      const std::size_t line_begin = text.rfind('\n') + 1;  // 0 when there is none
      const bool starts_line = line_begin > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (starts_line && strip(text.substr(line_begin), true, false).empty()) text = text.substr(0, line_begin);
    }
    if (!text.empty()) add(Token::Type::data, std::string(text));
    advance(end - at_);
  }

  char sign_at(std::size_t position) const {
    return position < source_.size() && (source_[position] == '-' || source_[position] == '+') ? source_[position]
                                                                                               : '\0';
  }

  void root() {
    std::size_t tag = at_;
    while ((tag = source_.find('{', tag)) != kNowhere) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    if (tag == kNowhere) {
      add(Token::Type::data, std::string(rest()));
      return advance(source_.size() - at_);
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(tag, sign, kind == '{');
    if (kind == '%' && raw_block()) return;
    const int line = line_;
    advance(sign ? 3 : 2);
    if (kind == '#') return comment(line);
    add(kind == '{' ? Token::Type::variable_begin : Token::Type::block_begin);
    inside(kind == '{');
  }

  void comment(int line) {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNowhere) {
      line_ = line;
      refuse("a comment is never closed: '#}' is missing");
    }
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    close(sign);
  }

  // What follows the end of a block or comment: "-" takes all white space, trim_blocks one line end, "+" nothing.
  void close(char sign) {
    if (sign == '-')
      advance(space_size(at_));
    else if (sign != '+' && sees("\n"))
      advance(1);
  }

  // The end of "{%- raw -%}" style tags: `name` between optional spaces. npos when it is another tag.
  std::size_t word_tag_end(std::size_t tag, std::string_view name, char& sign) const {
    std::size_t at = tag + 2;
    if (sign_at(at)) ++at;
    at += space_size(at);
    if (!std::string_view(source_).substr(at).starts_with(name)) return kNowhere;
    at += name.size();
    at += space_size(at);
    sign = sign_at(at);
    if (sign) ++at;
    return std::string_view(source_).substr(at).starts_with("%}") ? at + 2 : kNowhere;
  }

  bool raw_block() {
    char sign = '\0';
    const std::size_t begin = word_tag_end(at_, "raw", sign);
    if (begin == kNowhere || sign == '+') return false;
    advance(begin - at_);
    if (sign == '-') advance(space_size(at_));
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != kNowhere; tag += 2) {
      const std::size_t end = word_tag_end(tag, "endraw", sign);
      if (end == kNowhere) continue;
      add_data(tag, sign_at(tag + 2), false);
      advance(end - at_);
      close(sign);
      return true;
    }
    refuse("a raw block is never closed: '{% endraw %}' is missing");
  }

  bool end_of_tag(bool is_variable) {
    const std::string_view mark = is_variable ? "}}" : "%}";
    char sign = sign_at(at_);
    if (is_variable && sign == '+') sign = '\0';
    if (!rest().substr(sign ? 1 : 0).starts_with(mark)) return false;
    add(is_variable ? Token::Type::variable_end : Token::Type::block_end);
    advance((sign ? 1 : 0) + 2);
    if (!is_variable)
      close(sign);
    else if (sign == '-')
      advance(space_size(at_));
    return true;
  }

  void inside(bool is_variable) {
    std::string open;  // the brackets still to be closed
    while (at_ < source_.size()) {
      if (open.empty() && end_of_tag(is_variable)) return;
      if (const std::size_t space = space_size(at_))
        advance(space);
      else if (!number() && !name() && !string())
        op(open);
    }
    // The parser says which tag was open.
  }

  bool number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    Number found;
    if (!scan_number(rest(), after_dot, found)) return false;
    if (found.too_large) refuse("the number " + std::string(rest().substr(0, found.num_bytes)) + " is too large");
    Token& token = add(found.is_real ? Token::Type::real : Token::Type::integer);
    token.integer = found.integer;
    token.real = found.real;
    token.text = std::string(rest().substr(0, found.num_bytes));
    advance(found.num_bytes);
    return true;
  }

  bool name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t behind = end;
      const char32_t c = decode_code_point(source_, behind);
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (!plain && !(c >= 0x80 && (is_letter(c) || is_decimal(c)))) break;
      end = behind;
    }
    if (end == at_) return false;
    add(Token::Type::name, source_.substr(at_, end - at_));
    advance(end - at_);
    return true;
  }

  bool string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) refuse("a string is never closed");
    std::string text;
    if (const char* problem = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), text)) refuse(problem);
    add(Token::Type::string, std::move(text));
    advance(end + 1 - at_);
    return true;
  }

  void op(std::string& open) {
    static constexpr std::array<std::string_view, 25> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                                    "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ","};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view o) { return sees(o); });
    if (found == kOperators.end()) {
      std::size_t behind = at_;
      decode_code_point(source_, behind);
      refuse("unexpected character " + in_quotes(std::string_view(source_).substr(at_, behind - at_)));
    }
    const char first = (*found)[0];
    if (first == '(') open += ')';
    if (first == '[') open += ']';
    if (first == '{') open += '}';
    if (first == ')' || first == ']' || first == '}') {
      if (open.empty()) refuse(std::string("'") + first + "' closes nothing");
      if (open.back() != first) refuse(std::string("'") + first + "' stands where '" + open.back() + "' is expected");
      open.pop_back();
    }
    add(Token::Type::op, std::string(*found));
    advance(found->size());
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalized(source)).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case Token::Type::data:
      return "template text";
    case Token::Type::variable_begin:
      return "'{{'";
    case Token::Type::variable_end:
      return "'}}'";
    case Token::Type::block_begin:
      return "'{%'";
    case Token::Type::block_end:
      return "'%}'";
    case Token::Type::end:
      return "the end of the template";
    case Token::Type::string:
      return "the string " + in_quotes(std::string_view(token.text).substr(0, 40));
    default:
      return "'" + token.text.substr(0, 40) + "'";
  }
}

}  // namespace octavo::jinja
