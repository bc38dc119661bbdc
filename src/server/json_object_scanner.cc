#include "server/json_object_scanner.h"

#include "base/json.h"

namespace octavo {
namespace {

bool begins_word(std::string_view word) {
  for (const std::string_view literal : {"true", "false", "null"})
    if (literal.starts_with(word)) return true;
  return word.find_first_not_of("0123456789+-.eE") == std::string_view::npos && (word[0] == '-' || word[0] <= '9') &&
         word[0] != '+' && word[0] != '.';
}

bool is_word(std::string_view word) {
  return word == "true" || word == "false" || word == "null" || (word.back() >= '0' && word.back() <= '9');
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

std::vector<JsonObjectScanner::Member> JsonObjectScanner::members() const {
  std::vector<Member> result;
  const std::string_view text = text_;
  for (const Span& span : spans_)
    result.push_back(
        {text.substr(span.key, span.key_end - span.key), text.substr(span.value, span.value_end - span.value)});
  return result;
}

JsonObjectScanner::Verdict JsonObjectScanner::feed(char c) {
  if (inside_ == Inside::word) {
    if (begins_word(word_ + c)) {
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
        inside_ = Inside::hex;
        return Verdict::more;
      }
      inside_ = Inside::string;
      return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? Verdict::invalid : Verdict::more;
    case Inside::hex:
      if (--hex_left_ == 0) inside_ = Inside::string;
      return is_hex(c) ? Verdict::more : Verdict::invalid;
    case Inside::string:
      if (c == '\\') inside_ = Inside::escape;
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
    if (!begins_word(word_)) return Verdict::invalid;
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
