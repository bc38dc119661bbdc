#include "server/answer_form.h"

#include <utility>

namespace octavo {
namespace {

std::string head(const FormFacts& facts, const char* id_prefix, const char* object) {
  return "{\"id\":" + to_text(Json(id_prefix + facts.id)) + ",\"object\":\"" + object +
         "\",\"created\":" + std::to_string(facts.created) + ",\"model\":" + to_text(Json(facts.model));
}

template <class Ids, class IdOf>
std::string ids_member(const char* name, const Ids& ids, const IdOf& id_of) {
  std::string text = std::string(",\"") + name + "\":[";
  bool first = true;
  for (const auto& entry : ids) {
    text += (first ? "" : ",") + std::to_string(id_of(entry));
    first = false;
  }
  return text + "]";
}

}  // namespace

std::string Usage::json() const {
  return "{\"prompt_tokens\":" + std::to_string(prompt_tokens) +
         ",\"total_tokens\":" + std::to_string(prompt_tokens + completion_tokens) +
         ",\"completion_tokens\":" + std::to_string(completion_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(cached_tokens) + "}}";
}

AnswerForm::AnswerForm(FormFacts facts, const char* id_prefix, const char* whole_name, const char* chunk_name)
    : head_of_chunk_(head(facts, id_prefix, chunk_name)),
      head_of_whole_(head(facts, id_prefix, whole_name)),
      facts_(std::move(facts)),
      prompt_rows_(facts_.prompts.size()) {}

void AnswerForm::set_prompt_rows(int prompt, std::vector<TokenLogprobs> rows) {
  prompt_rows_[static_cast<std::size_t>(prompt)] = std::move(rows);
}

std::string AnswerForm::prompt_ids_member(int prompt) const {
  if (!facts_.token_ids) return {};
  return ids_member("prompt_token_ids", facts_.prompts[static_cast<std::size_t>(prompt)].ids,
                    [](std::int32_t id) { return id; });
}

std::string AnswerForm::token_ids_member(const Piece& piece) const {
  if (!facts_.token_ids) return {};
  return ids_member("token_ids", piece.tokens, [](const AnswerToken& token) { return token.id; });
}

std::string AnswerForm::usage_chunk(const Usage& usage) const {
  return head_of_chunk_ + ",\"choices\":[],\"usage\":" + usage.json() + "}";
}

}  // namespace octavo
