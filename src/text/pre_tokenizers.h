// What files say of a tokenizer by a name alone, and what the name implies: the pre-tokenizers of GGUF
// (`tokenizer.ggml.pre`) and its kinds of vocabulary, and Hugging Face's classes.
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

// Whether this `tokenizer_class` puts around a text what tokenizer_config.json says (a BOS where it says nothing),
// whatever the post_processor of tokenizer.json.
bool config_says_what_is_around(std::string_view tokenizer_class);

}  // namespace octavo
