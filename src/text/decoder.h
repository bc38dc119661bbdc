// From tokens to text: the decoder of tokenizer.json, brought into one form that whole and streamed decoding share.
//
// Each token's own text is worked out once, when the tokenizer is read; what depends on neighbours is a small state:
// unfinished UTF-8, a run of byte tokens, the first token, leading characters to strip.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo {

// What depends on neighbours. `Replace` and `Strip` of single tokens are already in the tokens' texts.
struct DecodePlan {
  bool byte_level = false;         // tokens are bytes; broken UTF-8 becomes U+FFFD, one for each bad sequence
  bool byte_fallback = false;      // a run of <0xNN> is text if it is UTF-8 as a whole, else one U+FFFD for each byte
  std::string separator;           // between tokens (a file without decoder: one space)
  std::string strip_first_token;   // removed wherever it stands in the first token (Metaspace); empty = nothing
  std::string strip_start;         // one character, removed from the beginning of the whole text ...
  std::size_t strip_start_max = 0; // ... up to so many times
};

struct DecodeState {
  std::string held;         // unfinished UTF-8 or the run of byte tokens
  bool first = true;        // no token so far
  std::size_t stripped = 0;
  bool strip_over = false;  // text that is not to be stripped has been seen
};

// One token whose text is `text`; is_byte: it is a byte token and text is that byte. Appends what is certain to `out`.
void decode_token(const DecodePlan& plan, std::string_view text, bool is_byte, DecodeState& state, std::string& out);

// The end of the text: appends the rest and resets the state.
void decode_finish(const DecodePlan& plan, DecodeState& state, std::string& out);

}  // namespace octavo
