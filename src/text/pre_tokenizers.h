// The pre-tokenizers that a GGUF file only names (`tokenizer.ggml.pre`): their expressions, and what else the name
// implies.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/unicode.h"

namespace octavo {

struct NamedPreTokenizer {
  std::vector<std::string_view> names;
  std::vector<std::string_view> regexes;  // one split after the other; then bytes
  std::optional<UnicodeForm> form;        // of the text before
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// An empty name is "default".
Result<NamedPreTokenizer> find_pre_tokenizer(std::string_view name);

// ByteLevel's own expression in tokenizer.json (`use_regex`).
inline constexpr std::string_view kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// How text becomes tokens of a GGUF vocabulary, by its `tokenizer.ggml.model`.
enum class VocabularyKind {
  merged_bytes,       // byte-level BPE by merges
  merged_characters,  // merges over characters, "▁" for a space, byte fallback
  scored_characters,  // the same joined by score
};
Result<VocabularyKind> find_vocabulary_kind(std::string_view model);

}  // namespace octavo
