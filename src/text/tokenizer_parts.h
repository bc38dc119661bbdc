// What a Tokenizer consists of once it has been read, whatever file it came from. Only text's own files look in here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace octavo {

// Far above any model, so that a corrupt file cannot ask for much memory or time.
constexpr int kMaxVocabulary = 1 << 23;       // ids
constexpr std::size_t kMaxFreeIds = 1 << 16;  // ids that no token has
constexpr std::size_t kMaxPieceBytes = 4096;  // of an added token, and of one that is scored as a whole

struct Tokenizer::Parts {
  TokenTable spelled;            // as the file writes the tokens; free ids are empty
  TokenTable decoded;            // what they stand for (Decoder::token_text)
  TokenTable decoded_first;      // the same for the first token of a text; empty where that makes no difference
  std::vector<bool> is_byte;     // by id, of `decoded`
  std::vector<bool> special;     // by id
  AddedTokens added_raw;         // looked for in the text as it is
  AddedTokens added_normalized;  // looked for after normalisation
  TextNormalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  Decoder decoder;
  std::vector<std::int32_t> prefix, suffix;
  std::optional<int> bos, eos;
  std::string description;
};

// What both kinds of file come down to; `assemble` works out the rest.
struct TokenizerSource {
  std::vector<std::string> spelled;  // by id, free ids empty
  std::vector<bool>
      in_model;  // by id: text can become this token by merging; the others are found as added tokens only
  std::vector<AddedToken> added;
  std::vector<Merge> merges;
  BpeRules rules;
  TextNormalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  std::vector<std::int32_t> prefix, suffix;
  std::optional<int> bos, eos;
};

Result<Tokenizer> assemble_tokenizer(TokenizerSource source);

}  // namespace octavo
