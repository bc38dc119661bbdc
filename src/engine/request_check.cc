#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/stop_strings.h"

namespace octavo {
namespace {

std::string number_text(double x) {
  if (std::isnan(x)) return "not a number";
  std::string text = std::to_string(x);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool point = text.back() == '.';
    text.pop_back();
    if (point) break;
  }
  return text;
}

Error refusal(const std::string& field, double value, const char* allowed) {
  return Error(field + " is " + number_text(value) + ": it must be " + allowed);
}

// Written so that NaN is outside of every range.
bool between(double x, double low, double high) { return x >= low && x <= high; }

Status check_numbers(const SamplingParams& s) {
  if (!(s.temperature >= 0.0f) || std::isinf(s.temperature))
    return refusal("temperature", s.temperature, "a finite number that is not negative");
  if (!(s.top_p > 0.0f && s.top_p <= 1.0f)) return refusal("top_p", s.top_p, "above 0 and at most 1");
  if (!between(s.min_p, 0, 1)) return refusal("min_p", s.min_p, "between 0 and 1");
  if (s.top_k < -1) return refusal("top_k", s.top_k, "0 or -1 (all tokens) or positive");
  if (!between(s.presence_penalty, -2, 2)) return refusal("presence_penalty", s.presence_penalty, "between -2 and 2");
  if (!between(s.frequency_penalty, -2, 2))
    return refusal("frequency_penalty", s.frequency_penalty, "between -2 and 2");
  if (!(s.repetition_penalty > 0.0f) || std::isinf(s.repetition_penalty))
    return refusal("repetition_penalty", s.repetition_penalty, "a finite number above 0");
  return {};
}

Status check_counts(const SamplingParams& s) {
  if (s.max_tokens < 0) return refusal("max_tokens", s.max_tokens, "positive, or 0 for as many as the context holds");
  if (s.min_tokens < 0) return refusal("min_tokens", s.min_tokens, "0 or more");
  if (s.reasoning && s.reasoning->tokens < 0) return refusal("thinking_token_budget", s.reasoning->tokens, "0 or more");
  if (s.max_tokens > 0 && s.min_tokens > s.max_tokens)
    return Error("min_tokens is " + std::to_string(s.min_tokens) + ": it must not exceed max_tokens, which is " +
                 std::to_string(s.max_tokens));
  if (s.n < 1 || s.n > kMaxContinuations) return refusal("n", s.n, "between 1 and 128");
  if (s.logprobs && (*s.logprobs < 0 || *s.logprobs > kMaxLogprobs))
    return refusal("logprobs", *s.logprobs, "between 0 and 20");
  if (s.prompt_logprobs && (*s.prompt_logprobs < 0 || *s.prompt_logprobs > kMaxLogprobs))
    return refusal("prompt_logprobs", *s.prompt_logprobs, "between 0 and 20");
  return {};
}

Status check_lists(const SamplingParams& s, int vocab) {
  std::size_t stop_bytes = 0;
  for (const std::string& stop : s.stop) {
    if (stop.empty()) return Error("a stop string is empty: it would end every answer before its first token");
    stop_bytes += stop.size();
  }
  if (stop_bytes > kMaxStopBytes)
    return Error("the stop strings have " + std::to_string(stop_bytes) + " bytes together: at most " +
                 std::to_string(kMaxStopBytes));
  if (auto ids = check_token_ids(s.stop_token_ids, "stop_token_ids", vocab); !ids) return ids;
  if (auto ids = check_token_ids(s.allowed_token_ids, "allowed_token_ids", vocab); !ids) return ids;
  if (s.allowed_token_ids.size() > kMaxListedTokens)
    return Error("allowed_token_ids has " + std::to_string(s.allowed_token_ids.size()) + " entries: at most " +
                 std::to_string(kMaxListedTokens));
  if (s.bad_words.size() > kMaxListedTokens)
    return Error("bad_words has " + std::to_string(s.bad_words.size()) + " entries: at most " +
                 std::to_string(kMaxListedTokens));
  for (const auto& word : s.bad_words) {
    if (word.empty()) return Error("bad_words holds a word without a token: name what must not be written");
    if (word.size() > kMaxBadWordTokens)
      return Error("bad_words holds a word of " + std::to_string(word.size()) + " tokens: at most " +
                   std::to_string(kMaxBadWordTokens));
    if (auto ids = check_token_ids(word, "bad_words", vocab); !ids) return ids;
  }
  if (s.reasoning) {
    if (s.reasoning->begin.empty() || s.reasoning->end.empty())
      return Error("a bound on the reasoning needs the markers that it stands between");
    OCTAVO_TRY(check_token_ids(s.reasoning->begin, "the marker that begins the reasoning", vocab));
    OCTAVO_TRY(check_token_ids(s.reasoning->end, "the marker that ends the reasoning", vocab));
  }
  for (const auto& [id, bias] : s.logit_bias) {
    if (id < 0 || id >= vocab)
      return Error("logit_bias names token " + std::to_string(id) + ", but the vocabulary ends at " +
                   std::to_string(vocab - 1));
    if (!between(bias, -100, 100))
      return refusal("logit_bias of token " + std::to_string(id), bias, "between -100 and 100");
  }
  return {};
}

Status check_prompt(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return Error("the prompt is empty: it needs at least one token");
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length >= limits.max_model_len) {
    std::string sentence = "This model's maximum context length is " + std::to_string(limits.max_model_len) +
                           " tokens, but the prompt has " + std::to_string(length) + " tokens";
    sentence += length == limits.max_model_len ? ", which leaves no room for an answer. " : ". ";
    return Error(sentence + "Please reduce the length of the prompt.");
  }
  return check_token_ids(request.prompt, "the prompt", limits.vocab);
}

}  // namespace

Status check_token_ids(const std::vector<std::int32_t>& ids, const char* what, int vocab) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      return Error(std::string("entry ") + std::to_string(i) + " of " + what + " is token " + std::to_string(ids[i]) +
                   ", but the vocabulary ends at " + std::to_string(vocab - 1));
  return {};
}

Status check_request(const Request& request, const RequestLimits& limits) {
  if (auto numbers = check_numbers(request.sampling); !numbers) return numbers;
  if (auto counts = check_counts(request.sampling); !counts) return counts;
  if (auto lists = check_lists(request.sampling, limits.vocab); !lists) return lists;
  return check_prompt(request, limits);
}

int answer_limit(const Request& request, int max_model_len) {
  const int room = max_model_len - static_cast<int>(request.prompt.size());
  return request.sampling.max_tokens > 0 ? std::min(request.sampling.max_tokens, room) : room;
}

}  // namespace octavo
