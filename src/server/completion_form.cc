#include "server/answer_form.h"
#include "server/logprobs_json.h"

namespace octavo {
namespace {

class CompletionForm final : public AnswerForm {
 public:
  explicit CompletionForm(FormFacts facts)
      : AnswerForm(std::move(facts), "cmpl-", "text_completion", "text_completion") {}

  std::vector<std::string> chunks(const Piece& piece, const Usage* usage) override {
    const bool says_something =
        !piece.delta.content.empty() || !piece.finish.empty() || !piece.tokens.empty() || (piece.first && facts_.echo);
    if (!says_something) return {};
    std::string text = head_of_chunk_ + ",\"choices\":[" + choice(piece) + "]";
    if (usage != nullptr) text += ",\"usage\":" + usage->json();
    return {text + "}"};
  }

  std::string whole(const std::vector<Piece>& pieces, const Usage& usage) override {
    std::string choices;
    for (const Piece& piece : pieces) choices += (choices.empty() ? "" : ",") + choice(piece);
    return head_of_whole_ + ",\"choices\":[" + choices + "],\"usage\":" + usage.json() + "}";
  }

 private:
  std::string choice(const Piece& piece) {
    const PromptSpec& prompt = facts_.prompts[static_cast<std::size_t>(piece.prompt)];
    const bool with_prompt = facts_.echo && piece.first;
    const std::string text = (with_prompt ? prompt.echo : std::string()) + piece.delta.content;
    std::string json = "{\"index\":" + std::to_string(piece.choice) + ",\"text\":" + to_text(Json(text)) +
                       ",\"logprobs\":" + (facts_.logprobs ? to_text(logprobs(piece, with_prompt)) : "null") +
                       ",\"finish_reason\":" + (piece.finish.empty() ? "null" : "\"" + piece.finish + "\"") +
                       ",\"stop_reason\":" + to_text(piece.stop_reason) + token_ids_member(piece);
    if (piece.first) json += prompt_ids_member(piece.prompt);
    if (facts_.prompt_logprobs)
      json += ",\"prompt_logprobs\":" + to_text(prompt_logprobs_json(prompt.ids, rows_of(piece.prompt),
                                                                     *facts_.prompt_logprobs, *facts_.tokenizer));
    return json + "}";
  }

  OrderedJson logprobs(const Piece& piece, bool with_prompt) {
    const PromptSpec& prompt = facts_.prompts[static_cast<std::size_t>(piece.prompt)];
    if (offsets_.size() <= static_cast<std::size_t>(piece.choice))
      offsets_.resize(static_cast<std::size_t>(piece.choice) + 1);
    std::size_t& offset = offsets_[static_cast<std::size_t>(piece.choice)];
    CompletionLogprobs list(names(), *facts_.logprobs, offset);
    if (with_prompt) {
      const auto& rows = rows_of(piece.prompt);
      for (std::size_t i = 0; i < prompt.ids.size(); ++i)
        list.add(prompt.ids[i], i == 0 || i >= rows.size() ? nullptr : &rows[i]);
    }
    for (const AnswerToken& token : piece.tokens) list.add(token.id, &token.logprobs);
    offset = list.offset();
    return list.take();
  }

  const std::vector<TokenLogprobs>& rows_of(int prompt) const { return prompt_rows_[static_cast<std::size_t>(prompt)]; }

  std::vector<std::size_t> offsets_;  // by choice: characters so far
};

}  // namespace

std::unique_ptr<AnswerForm> make_completion_form(FormFacts facts) {
  return std::make_unique<CompletionForm>(std::move(facts));
}

}  // namespace octavo
