#include "server/words.h"

#include <algorithm>

#include "base/strings.h"

namespace octavo {
namespace {

// What normal forms may shrink a text by (three jamo of three bytes are one syllable of three).
constexpr std::size_t kNormalShrink = 4;

}  // namespace

bool Words::serves(std::string_view name) const {
  return name.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

ApiError Words::unknown_model(std::string_view name) const {
  return {
      .status = 404,
      .message = "The model `" + std::string(name) + "` does not exist. Served here: `" + join(names, "`, `") + "`.",
      .param = "model"};
}

Result<std::vector<std::int32_t>> Words::encode(std::string_view text, bool add_special) const {
  const std::size_t least = text.size() / (longest_token * kNormalShrink);
  if (least > static_cast<std::size_t>(max_model_len)) return Error(too_long(max_model_len, least, true));
  return tokenizer.encode(text, {.parse_special = true, .add_special = add_special});
}

std::size_t longest_token_bytes(const Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (int id = 0; id < tokenizer.vocab_size(); ++id) longest = std::max(longest, tokenizer.token_bytes(id).size());
  return longest;
}

SamplingParams recommended_sampling(const Json& generation_config) {
  SamplingParams params;
  const auto number = [&](const char* key, float& target, float low, float high) {
    const auto value = find_number(generation_config, key);
    if (value && *value && **value >= low && **value <= high) target = static_cast<float>(**value);
  };
  number("temperature", params.temperature, 0.0f, 100.0f);
  number("top_p", params.top_p, 1e-6f, 1.0f);
  number("min_p", params.min_p, 0.0f, 1.0f);
  number("repetition_penalty", params.repetition_penalty, 1e-6f, 100.0f);
  const auto top_k = find_int(generation_config, "top_k");
  if (top_k && *top_k && **top_k >= -1 && **top_k < (1 << 24)) params.top_k = static_cast<int>(**top_k);
  return params;
}

std::string too_long(int max_model_len, std::size_t tokens, bool at_least) {
  return "This model's maximum context length is " + std::to_string(max_model_len) + " tokens, but the prompt has " +
         (at_least ? "at least " : "") + std::to_string(tokens) + " tokens. Please reduce the length of the prompt.";
}

}  // namespace octavo
