// What a tokenizer promises of any vocabulary that it accepts: known ids, text that is UTF-8, and the same text whether
// it is decoded at once or token by token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/fuzz/readers.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace octavo {

inline void require_words(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool around : {false, true}) {
    const EncodeOptions options{.parse_special = around, .add_special = around};
    const auto ids = tokenizer.encode(text, options);
    if (!succeeds(ids)) return;
    for (const std::int32_t id : *ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids are known", text);
    require(*tokenizer.encode(text, options) == *ids, "the same text has the same ids", text);
    const std::string whole = tokenizer.decode(*ids);
    require(find_invalid_utf8(whole) == std::string::npos, "text is UTF-8", whole);
    StreamDecoder decoder(tokenizer);
    std::string pieces;
    for (const std::int32_t id : *ids) pieces += decoder.push(id);
    require(pieces + decoder.finish() == whole, "text is the same token by token", whole);
  }
}

// Letters, digits, spaces and line ends in runs, other scripts, marks, broken bytes, and what looks like a token.
constexpr std::string_view kMixedText =
    "It's 12,345  h\xC3\xA9llo \n\n\t\xE6\x9D\xB1\xE4\xBA\xAC e\xCC\x81 \xEF\xB7\xBA <|a|><0x41> \xFF\xF0\x9F "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa            \xF0\x9F\x8C\x8D\xE2\x96\x81z";

}  // namespace octavo
