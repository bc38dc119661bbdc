// From tokens to text: the decoder of tokenizer.json, brought into one form that whole and streamed decoding share.
//
// Each token's own text is worked out once, when the tokenizer is read (`token_text`); what depends on neighbours is a
// small state: unfinished UTF-8, a run of byte tokens, the first token, leading characters to strip.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

struct DecodeState {
  std::string held;          // unfinished UTF-8, or a run of byte tokens
  bool first = true;         // no token so far
  std::size_t stripped = 0;  // leading characters removed so far
  bool strip_over = false;   // text that stays has been seen
};

class Decoder {
 public:
  // What a token stands for by itself: text; or, of a byte token, one byte; or, byte-level, some bytes.
  struct TokenText {
    std::string text;
    bool is_byte = false;
  };

  static Result<Decoder> from_json(const nlohmann::json* decoder);  // null: tokens with spaces between them
  static Decoder byte_level();
  // "▁" is a space, <0xNN> is a byte; with strip_first one space in front of everything goes.
  static Decoder spaced_pieces(bool strip_first);

  // `spelled`: as the vocabulary has it. `first`: it opens the text.
  Result<TokenText> token_text(std::string_view spelled, bool first) const;
  bool first_differs() const { return first_differs_; }  // whether `first` matters to token_text

  // Appends to `out` what is certain now that this token (in its text) follows the others; then, at the end, the rest.
  void push(std::string_view text, bool is_byte, DecodeState& state, std::string& out) const;
  void finish(DecodeState& state, std::string& out) const;

 private:
  // What happens to each token by itself.
  struct Step {
    enum class Kind { replace, strip, metaspace } kind = Kind::replace;
    std::string what, with;           // replace; metaspace: what stands for a space; strip: the character
    std::size_t start = 0, stop = 0;  // strip: how many at most
    bool drop_first = false;          // metaspace: the first token loses its spaces
  };
  Status add_json(const nlohmann::json& decoder, int depth);
  Status add_strip(const nlohmann::json& decoder);
  void emit(std::string_view text, DecodeState& state, std::string& out) const;
  void emit_run(DecodeState& state, std::string& out) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;     // tokens are bytes; broken UTF-8 becomes U+FFFD, one for each bad sequence
  bool byte_fallback_ = false;  // a run of <0xNN> is text if it is UTF-8 as a whole, else one U+FFFD for each byte
  bool fused_ = false;          // what follows in the file works on the whole text
  bool first_differs_ = false;
  std::string separator_;      // between tokens
  std::string strip_;          // a character that is removed from the beginning of the whole text ...
  std::size_t strip_max_ = 0;  // ... so many times at most
};

// The bytes that a byte-level vocabulary's spelling stands for ("Ġthe" is " the"); nullopt: it is not such a spelling.
std::optional<std::string> bytes_of_spelling(std::string_view spelled);

}  // namespace octavo
