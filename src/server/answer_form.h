// AnswerForm: how an answer is written down: chat completions or completions, whole or in chunks. A Piece is what came
// of one choice since its last piece; a whole answer is the form of one piece a choice, so both say the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "server/answer_reader.h"
#include "server/generation_spec.h"
#include "text/tokenizer.h"

namespace octavo {

// A generated token that the client may want to know more of.
struct AnswerToken {
  std::int32_t id = 0;
  TokenLogprobs logprobs;
};

struct Piece {
  int choice = 0;  // prompt number * n + continuation
  int prompt = 0;
  bool first = false;  // the first of its choice
  AnswerDelta delta;
  std::vector<AnswerToken> tokens;  // kept when log-probabilities or ids are wanted
  std::string finish;               // "stop", "length", "tool_calls"; empty: more will come
  OrderedJson stop_reason;          // a string, a token id, or null
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;

  std::string json() const;
};

// What a form needs of a request.
struct FormFacts {
  std::string id;  // of the request
  std::int64_t created = 0;
  std::string model;
  const Tokenizer* tokenizer = nullptr;
  std::vector<PromptSpec> prompts;
  bool echo = false;
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
  bool token_ids = false;      // of the prompt and of each piece are shown
  bool tokens_as_ids = false;  // log-probabilities call a token "token_id:5"
};

// How log-probabilities call a token: by its text, or "token_id:5".
struct TokenNames {
  const Tokenizer& tokenizer;
  bool as_ids = false;
};

class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  // Of prompt i, once they are known: [ids], entry 0 is empty.
  void set_prompt_rows(int prompt, std::vector<TokenLogprobs> rows);

  // JSON texts of the events that tell of a piece: none, one or several. usage: on every chunk, or null.
  virtual std::vector<std::string> chunks(const Piece& piece, const Usage* usage) = 0;
  std::string usage_chunk(const Usage& usage) const;
  virtual std::string whole(const std::vector<Piece>& pieces, const Usage& usage) = 0;

 protected:
  AnswerForm(FormFacts facts, const char* id_prefix, const char* whole_name, const char* chunk_name);

  TokenNames names() const { return {*facts_.tokenizer, facts_.tokens_as_ids}; }
  // ,"NAME":[ids]; nothing where ids are not wanted.
  std::string prompt_ids_member(int prompt) const;
  std::string token_ids_member(const Piece& piece) const;

  // {"id":..., "object":..., "created":..., "model":..., without the closing brace.
  std::string head_of_chunk_, head_of_whole_;
  FormFacts facts_;
  std::vector<std::vector<TokenLogprobs>> prompt_rows_;
};

std::unique_ptr<AnswerForm> make_chat_form(FormFacts facts);
std::unique_ptr<AnswerForm> make_completion_form(FormFacts facts);

}  // namespace octavo
