// GenerationSpec: what a client asked to be generated, read from JSON and turned into tokens, ready for the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/answer_plan.h"
#include "server/errors.h"

namespace octavo {

struct PromptSpec {
  std::vector<std::int32_t> ids;
  std::string echo;  // what stands before the answer when the client wants its prompt back
};

struct GenerationSpec {
  std::string id;     // of the request, without the kind's prefix
  std::string model;  // the name the client used
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool echo = false;
  bool prompt_only = false;  // max_tokens 0 with echo: the prompt and its log-probabilities, nothing new
  bool skip_special = true;
  std::optional<int> logprobs;         // of the answer, as the client wants them
  std::optional<int> prompt_logprobs;  // the field of that name
  bool return_token_ids = false;       // of prompt and answer
  bool tokens_as_ids = false;          // log-probabilities call a token "token_id:5"
  SamplingParams sampling;
  int priority = 0;
  std::string cache_salt;
  std::string user;
  std::optional<int> keep_tokens =
      {};  // of each prompt only the last so many; -1: as many as leave room for the answer
  std::vector<PromptSpec> prompts;
  AnswerPlan answer = {};  // how what the model writes is read

  int continuations() const { return static_cast<int>(prompts.size()) * sampling.n; }
};

// A spec, or why not.
struct SpecResult {
  GenerationSpec spec;
  std::optional<ApiError> error = {};
};

}  // namespace octavo
