#include "text/pre_tokenizers.h"

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::string_view kContractionRuns =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kContractionDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMarkedDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCasedRuns =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCasedDigits =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kHanApart =
    R"(\p{Han}+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuatedWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<NamedPreTokenizer> known_pre_tokenizers() {
  return {
      {{"default", ""}, {R"([\p{P}\$\+<=>\^~\|]+)", kByteLevelRegex, R"(\p{N}+)", "[0-9][0-9][0-9]"}, {}, false, false},
      {{"gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4"}, {kByteLevelRegex}, {}, false, false},
      {{"smollm", "starcoder", "refact", "command-r", "exaone"}, {R"(\p{N})", kByteLevelRegex}, {}, false, false},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"}, {kContractionRuns}, {}, true, true},
      {{"chatglm-bpe", "glm4"}, {kContractionRuns}, {}, false, false},
      {{"qwen2", "deepseek-r1-qwen", "megrez"}, {kContractionDigits}, UnicodeForm::nfc, false, false},
      {{"stablelm2", "hunyuan", "grok-2"}, {kContractionDigits}, {}, false, false},
      {{"qwen35"}, {kMarkedDigits}, UnicodeForm::nfc, false, false},
      {{"gpt-4o", "llama4"}, {kCasedRuns}, {}, true, false},
      {{"tekken"}, {kCasedDigits}, {}, true, true},
      {{"kimi-k2"}, {kHanApart}, {}, true, false},
      {{"deepseek-v3"}, {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kPunctuatedWords}, {}, false, false},
  };
}

}  // namespace

Result<NamedPreTokenizer> find_pre_tokenizer(std::string_view name) {
  std::vector<std::string> names;
  for (NamedPreTokenizer& known : known_pre_tokenizers()) {
    if (std::find(known.names.begin(), known.names.end(), name) != known.names.end()) return std::move(known);
    names.emplace_back(known.names.front());
  }
  return Error("the pre-tokenizer " + in_quotes(name) + " is not supported (" + join(names, ", ") + " are)",
               ErrorKind::unsupported);
}

Result<VocabularyKind> find_vocabulary_kind(std::string_view model) {
  if (model == "gpt2") return VocabularyKind::merged_bytes;
  if (model == "llama") return VocabularyKind::scored_characters;
  if (model == "gemma4") return VocabularyKind::merged_characters;
  return Error("the tokenizer model " + in_quotes(model) + " is not supported (gpt2, llama, gemma4 are)",
               ErrorKind::unsupported);
}

bool config_says_what_is_around(std::string_view tokenizer_class) {
  return tokenizer_class.starts_with("LlamaTokenizer") || tokenizer_class.starts_with("GemmaTokenizer");
}

}  // namespace octavo
