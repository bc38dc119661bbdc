// Tokens in, text out, one token at a time: what push() gave so far, and finish() at last, joined, is exactly
// Tokenizer::decode() of all the ids.
//
// Held back is only what a later token can still change: an unfinished UTF-8 sequence, or a run of byte tokens
// (<0x..>), which stands for text only as a whole. Every delta is valid UTF-8. U+FFFD that the model wrote itself
// passes unharmed.
#pragma once

#include <cstdint>
#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace octavo {

class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {});

  std::string push(std::int32_t id);
  std::string finish();     // the rest; the decoder is then as new
  bool holds_text() const;  // a part of a character waits for more

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  DecodeState state_;
};

}  // namespace octavo
