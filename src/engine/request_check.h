// Whether a request can be served at all. Each refusal is one sentence that names the field, its value and what is
// allowed. Ranges are vLLM's. A prompt that fits is never refused for its max_tokens: those are clamped (answer_limit).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace octavo {

constexpr int kMaxLogprobs = 20;
constexpr int kMaxContinuations = 128;
constexpr std::size_t kMaxListedTokens = 4096;  // allowed ones, and bad words
constexpr std::size_t kMaxBadWordTokens = 256;  // of one word

struct RequestLimits {
  int vocab = 0;
  int max_model_len = 0;
};

Status check_request(const Request& request, const RequestLimits& limits);

// Every id in [0, vocab); `what` begins the sentence: "token 3 of the prompt".
Status check_token_ids(const std::vector<std::int32_t>& ids, const char* what, int vocab);

// Tokens that may be generated: max_tokens, or less where the context ends before.
int answer_limit(const Request& request, int max_model_len);

}  // namespace octavo
