// Log-probabilities as the two APIs write them. Every number is finite: at least -9999.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/answer_form.h"

namespace octavo {

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]} of these tokens.
OrderedJson chat_logprobs(const std::vector<AnswerToken>& tokens, int top, const TokenNames& names);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, filled one token after another. A token whose bytes are
// only a part of a character is written "bytes:\x..", so that no two tokens share a name.
class CompletionLogprobs {
 public:
  CompletionLogprobs(const TokenNames& names, int top, std::size_t offset);

  void add(std::int32_t id, const TokenLogprobs* row);  // null: the first token of a prompt, which has none
  OrderedJson take() { return std::move(json_); }
  std::size_t offset() const { return offset_; }  // characters so far

 private:
  TokenNames names_;
  int top_;
  std::size_t offset_;
  OrderedJson json_;
};

// vLLM's prompt_logprobs: [null, {"ID": {"logprob", "rank", "decoded_token"}}, ...].
OrderedJson prompt_logprobs_json(const std::vector<std::int32_t>& ids, const std::vector<TokenLogprobs>& rows, int top,
                                 const Tokenizer& tokenizer);

}  // namespace octavo
