#include "server/json_object_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 3> kLiterals = {"true", "false", "null"};

bool begins_number(char c) { return c == '-' || (c >= '0' && c <= '9'); }

bool begins_word(char c) {
  return begins_number(c) ||
         std::any_of(kLiterals.begin(), kLiterals.end(), [c](std::string_view literal) { return literal[0] == c; });
}

// Whether the word may go on with this letter.
bool continues_word(std::string_view word, char c) {
  if (begins_number(word[0])) return std::string_view("0123456789+-.eE").find(c) != std::string_view::npos;
  return std::any_of(kLiterals.begin(), kLiterals.end(), [&](std::string_view literal) {
    return literal.size() > word.size() && literal.starts_with(word) && literal[word.size()] == c;
  });
}

// Of "1e999", say, only a parser knows that it is none.
bool is_word(std::string_view word) {
  return word == "true" || word == "false" || word == "null" ||
         (word.back() >= '0' && word.back() <= '9' && parse_json(word, "").has_value());
}

int hex_digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool first_of_pair(unsigned code) { return code >= 0xD800 && code <= 0xDBFF; }
bool second_of_pair(unsigned code) { return code >= 0xDC00 && code <= 0xDFFF; }

}  // namespace

JsonObjectScanner::Member JsonObjectScanner::member(std::size_t index) const {
  const Span& span = spans_[index];
  const std::string_view text = text_;
  if (span.value == 0) return {};
  const std::size_t end = span.value_end > 0 ? span.value_end : text.size();
  return {text.substr(span.key, span.key_end - span.key), text.substr(span.value, end - span.value),
          span.value_end > 0};
}

JsonObjectScanner::Verdict JsonObjectScanner::feed(char c) {
  const std::size_t before = text_.size();
  const Verdict verdict = read(c);
  if (verdict == Verdict::invalid) text_.resize(before);
  return verdict;
}

JsonObjectScanner::Verdict JsonObjectScanner::read(char c) {
  if (inside_ == Inside::word) {
    if (continues_word(word_, c)) {
      word_ += c;
      text_ += c;
      return Verdict::more;
    }
    if (!is_word(word_)) return Verdict::invalid;
    inside_ = Inside::nothing;
    end_value();
  }
  text_ += c;
  switch (inside_) {
    case Inside::escape:
      if (c == 'u') {
        hex_left_ = 4;
        code_ = 0;
        inside_ = Inside::hex;
        return Verdict::more;
      }
      if (pair_) return Verdict::invalid;
      inside_ = Inside::string;
      return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? Verdict::invalid : Verdict::more;
    case Inside::hex:
      return hex_digit(c) ? Verdict::more : Verdict::invalid;
    case Inside::string:
      if (c == '\\') inside_ = Inside::escape;
      if (pair_ && c != '\\') return Verdict::invalid;
      if (c != '"') return static_cast<unsigned char>(c) < 0x20 ? Verdict::invalid : Verdict::more;
      inside_ = Inside::nothing;
      if (string_is_key_) {
        if (open_.size() == 1) spans_.back().key_end = text_.size() - 1;
        expect_ = Expect::colon;
      } else {
        end_value();
      }
      return Verdict::more;
    default:
      return is_json_space(c) ? Verdict::more : structure(c);
  }
}

bool JsonObjectScanner::hex_digit(char c) {
  const int value = hex_digit_value(c);
  if (value < 0) return false;
  code_ = code_ * 16 + static_cast<unsigned>(value);
  if (--hex_left_ > 0) return true;
  inside_ = Inside::string;
  const bool second = std::exchange(pair_, first_of_pair(code_) && !pair_);
  return second == second_of_pair(code_);
}

JsonObjectScanner::Verdict JsonObjectScanner::structure(char c) {
  switch (expect_) {
    case Expect::object:
      if (c != '{') return Verdict::invalid;
      open_.push_back(c);
      expect_ = Expect::key_or_end;
      return Verdict::more;
    case Expect::key_or_end:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Expect::key:
      if (c != '"') return Verdict::invalid;
      if (open_.size() == 1) spans_.push_back({text_.size(), 0, 0, 0});
      inside_ = Inside::string;
      string_is_key_ = true;
      return Verdict::more;
    case Expect::colon:
      expect_ = Expect::value;
      return c == ':' ? Verdict::more : Verdict::invalid;
    case Expect::comma_or_end:
      if (c != ',') return close(c);
      expect_ = open_.back() == '{' ? Expect::key : Expect::value;
      return Verdict::more;
    case Expect::value_or_end:
      if (c == ']') return close(c);
      [[fallthrough]];
    case Expect::value:
      break;
  }
  begin_value();
  if (c == '"') {
    inside_ = Inside::string;
    string_is_key_ = false;
  } else if (c == '{' || c == '[') {
    if (open_.size() >= static_cast<std::size_t>(kMaxJsonDepth)) return Verdict::invalid;
    open_.push_back(c);
    expect_ = c == '{' ? Expect::key_or_end : Expect::value_or_end;
  } else {
    word_ = c;
    inside_ = Inside::word;
    if (!begins_word(c)) return Verdict::invalid;
  }
  return Verdict::more;
}

JsonObjectScanner::Verdict JsonObjectScanner::close(char c) {
  if (c != (open_.back() == '{' ? '}' : ']')) return Verdict::invalid;
  open_.pop_back();
  if (open_.empty()) return Verdict::complete;
  end_value();
  return Verdict::more;
}

void JsonObjectScanner::begin_value() {
  if (open_.size() == 1) spans_.back().value = text_.size() - 1;
}

void JsonObjectScanner::end_value() {
  if (open_.size() == 1) spans_.back().value_end = text_.size();
  expect_ = Expect::comma_or_end;
}

}  // namespace octavo
