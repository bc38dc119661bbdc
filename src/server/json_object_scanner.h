// JsonObjectScanner: finds the end of a JSON object in text that comes letter by letter, and where its members stand.
//
// invalid comes with the first letter that no JSON object could have there, so the verdict never depends on how the
// text is cut. Numbers and \u escapes are looked at loosely: parse the text to be sure.
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

  const std::string& text() const { return text_; }

  // The object's own members, as written: the key without its quotes, the value with them.
  struct Member {
    std::string_view key, value;
  };
  std::vector<Member> members() const;
  bool empty() const { return text_.empty(); }

 private:
  enum class Expect { object, key_or_end, key, colon, value, value_or_end, comma_or_end };
  enum class Inside { nothing, string, escape, hex, word };
  struct Span {
    std::size_t key, key_end, value, value_end;
  };

  Verdict structure(char c);
  Verdict close(char c);
  void begin_value();
  void end_value();

  std::string text_;
  std::vector<char> open_;  // '{' and '['
  Expect expect_ = Expect::object;
  Inside inside_ = Inside::nothing;
  bool string_is_key_ = false;
  int hex_left_ = 0;
  std::string word_;  // true, 12.5, ...
  std::vector<Span> spans_;
};

}  // namespace octavo
