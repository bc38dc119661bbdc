// JsonObjectScanner: finds the end of a JSON object in text that comes letter by letter, and where its members stand.
//
// invalid comes at the same letter however the text is cut: the first that no JSON object could have there, or behind a
// number that is none. What is complete can be parsed, if its bytes are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

constexpr bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class JsonObjectScanner {
 public:
  enum class Verdict { more, complete, invalid };

  // Nothing may be fed after complete or invalid.
  Verdict feed(char c);

  const std::string& text() const { return text_; }  // without the letter that was invalid

  // The object's own members, as written: the key without its quotes, the value with them, or what has come of it.
  struct Member {
    std::string_view key, value;
    bool ended = false;
  };
  std::size_t num_members() const { return spans_.size(); }  // whose key has begun
  Member member(std::size_t index) const;
  bool empty() const { return text_.empty(); }

 private:
  enum class Expect { object, key_or_end, key, colon, value, value_or_end, comma_or_end };
  enum class Inside { nothing, string, escape, hex, word };
  struct Span {
    std::size_t key, key_end, value, value_end;
  };

  Verdict read(char c);
  Verdict structure(char c);
  bool hex_digit(char c);
  Verdict close(char c);
  void begin_value();
  void end_value();

  std::string text_;
  std::vector<char> open_;  // '{' and '['
  Expect expect_ = Expect::object;
  Inside inside_ = Inside::nothing;
  bool string_is_key_ = false;
  int hex_left_ = 0;
  unsigned code_ = 0;  // of \uXXXX
  bool pair_ = false;  // the first half of a surrogate pair has come: the second must follow
  std::string word_;   // true, 12.5, ...
  std::vector<Span> spans_;
};

}  // namespace octavo
