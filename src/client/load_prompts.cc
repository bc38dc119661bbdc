#include "client/load_prompts.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"
#include "client/api.h"

namespace octavo {

Result<LoadPrompts> LoadPrompts::learn(HttpClient& client, const std::string& model, bool text_only) {
  LoadPrompts prompts;
  prompts.words_ = load_words();
  const OrderedJson body = {{"model", model}, {"prompt", join(prompts.words_, "")}, {"add_special_tokens", false}};
  OCTAVO_TRY(const Reply reply, ask(client, {.method = "POST", .route = "/tokenize", .body = to_text(body)}));
  const Result<Json> answer = parse_json(reply.body, "/tokenize");
  const Json* tokens = reply.head.status == 200 && answer ? find_member(*answer, "tokens") : nullptr;
  if (tokens == nullptr || !tokens->is_array() || tokens->empty()) {
    log::info("the server does not tell its tokens", {{"effect", "prompts are words, about a token each"}});
    return prompts;
  }
  prompts.tokens_per_word_ = static_cast<double>(tokens->size()) / static_cast<double>(prompts.words_.size());
  if (text_only) return prompts;
  for (const Json& token : *tokens)
    if (token.is_number_integer()) prompts.ids_.push_back(token.get<std::int32_t>());
  std::sort(prompts.ids_.begin(), prompts.ids_.end());
  prompts.ids_.erase(std::unique(prompts.ids_.begin(), prompts.ids_.end()), prompts.ids_.end());
  return prompts;
}

int LoadPrompts::num_units() const { return static_cast<int>(ids_.empty() ? words_.size() : ids_.size()); }

int LoadPrompts::units_of(int tokens) const {
  if (!ids_.empty() || tokens == 0) return tokens;
  return std::max(1, static_cast<int>(std::lround(tokens / tokens_per_word_)));
}

OrderedJson LoadPrompts::prompt(const std::vector<std::int32_t>& units) const {
  OrderedJson ids = OrderedJson::array();
  std::string text;
  for (const std::int32_t unit : units) {
    if (ids_.empty())
      text += words_[static_cast<std::size_t>(unit)];
    else
      ids.push_back(ids_[static_cast<std::size_t>(unit)]);
  }
  return ids_.empty() ? OrderedJson(std::string(trim(text))) : ids;
}

}  // namespace octavo
