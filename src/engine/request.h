// Request: what was asked, in tokens. Limits and defaults are vLLM's where they have one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace octavo {

// Reasoning that ends after so many tokens: if it has not ended by itself, its end is written then.
struct ReasoningBudget {
  std::vector<std::int32_t> begin, end;  // the markers that it stands between
  int tokens = 0;
  bool open = false;  // the prompt has begun it
};

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f;
  float min_p = 0.0f;
  int top_k = 0;  // 0 or -1: all
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::optional<std::uint64_t> seed;  // absent: drawn by the engine from its own seed
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::vector<std::int32_t> allowed_token_ids;       // only these are drawn; empty: any
  std::vector<std::vector<std::int32_t>> bad_words;  // never drawn: the last token of each behind the ones before it
  std::optional<ReasoningBudget> reasoning;          // absent: as long as the model likes
  int max_tokens = 0;  // 0: as many as the context holds; a larger number than fits is clamped
  int min_tokens = 0;  // stop tokens are banned before
  std::vector<std::int32_t> stop_token_ids;
  std::vector<std::string> stop;  // stop strings; honoured by TextStream
  bool include_stop = false;      // the stop string stays in the text
  bool ignore_eos = false;
  std::optional<int> logprobs;         // of the sampled token and this many best ones
  std::optional<int> prompt_logprobs;  // the same of every prompt token but the first
  int n = 1;                           // independent continuations of one prompt
};

struct Request {
  std::string id;  // for logs; made up when empty
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  int priority = 0;        // lower runs first, as vLLM
  std::string caller;      // of one priority, callers get equal parts of the work; any name will do
  std::string cache_salt;  // requests share cached pages only within one salt
  std::string adapter;     // and one adapter
};

enum class FinishReason { stop, length, cancelled, failed };

struct TokenLogprobs {
  float logprob = 0;  // of the token itself, never below -9999
  int rank = 0;
  std::vector<std::pair<std::int32_t, float>> top;  // best first
};

// One thing that happened to one continuation.
struct TokenEvent {
  int index = 0;  // which of the n
  std::optional<std::int32_t> token;
  std::optional<TokenLogprobs> logprobs;
  std::optional<FinishReason> finish;          // last event of this index
  std::optional<std::int32_t> stop_token;      // the token that ended it; no part of the text, `token` is absent then
  std::string failure;                         // with FinishReason::failed: the sentence
  std::vector<TokenLogprobs> prompt_logprobs;  // on the first event of index 0, when asked for; entry 0 is empty
  int cached_tokens = 0;                       // of the prompt, on the first event of each index
  double queue_seconds = 0;                    // from submission to the first step it took part in; with cached_tokens
  std::chrono::steady_clock::time_point when;  // it was handed over
};

}  // namespace octavo
