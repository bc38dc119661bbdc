// Tokens that are cut out of the text by their exact spelling before anything else looks at it: control tokens, and
// what a model's makers added to the vocabulary later. Leftmost first, of several at one place the longest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;
  bool normalized = false;   // looked for in the normalised text, and spelled so
  bool single_word = false;  // only where no letter, digit or mark touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and behind it
};

class AddedTokens {
 public:
  struct Match {
    std::size_t begin, end;
    std::int32_t id;
  };

  // Contents are not empty and all different.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // The next one at or after `from`, in any bytes. With skip_special a special token is passed over as plain text.
  std::optional<Match> find(std::string_view text, std::size_t from, bool skip_special) const;

 private:
  struct Node {
    std::int32_t token = -1;  // index of the token that ends here
    std::vector<std::pair<char, std::int32_t>> next;
  };
  std::int32_t child(std::int32_t node, char byte) const;
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<std::int32_t, 256> roots_;  // node of each first byte, -1: no token begins so
};

}  // namespace octavo
