#include "server/wire_completions.h"

#include "server/wire_sampling.h"

namespace octavo {
namespace {

constexpr int kDefaultMaxTokens = 16;  // OpenAI's and vLLM's

// Reads the prompts of a request one by one; `name` is what an error calls the one being read.
class PromptReader {
 public:
  PromptReader(Fields& fields, const Words& words, bool add_special, GenerationSpec& spec)
      : fields_(fields), words_(words), add_special_(add_special), spec_(spec) {}

  void read_text(const std::string& name, const OrderedJson& text) {
    auto prompt = make_prompt(text.get<std::string>(), add_special_, words_, spec_);
    if (!prompt) return fields_.refuse("prompt", (name == "prompt" ? "" : name + ": ") + prompt.error().message());
    add(name, *std::move(prompt));
  }

  // Ids as they are, no BOS before them.
  void read_ids(const std::string& name, const OrderedJson& list) {
    std::vector<std::int32_t> ids;
    ids.reserve(list.size());
    for (const OrderedJson& entry : list) {
      const auto id = token_id(entry);
      if (!id || *id >= words_.vocab)
        return fields_.refuse("prompt", name + " holds " + to_text(entry).substr(0, 40) +
                                            ", which is no token id: those are whole numbers from 0 to " +
                                            std::to_string(words_.vocab - 1));
      ids.push_back(*id);
    }
    add(name, make_prompt(std::move(ids), words_, spec_));
  }

 private:
  void add(const std::string& name, PromptSpec prompt) {
    if (prompt.ids.empty()) return fields_.refuse("prompt", name + " is empty: it needs at least one token");
    spec_.prompts.push_back(std::move(prompt));
  }

  Fields& fields_;
  const Words& words_;
  const bool add_special_;
  GenerationSpec& spec_;
};

void read_prompts(Fields& fields, const Words& words, bool add_special, GenerationSpec& spec) {
  const OrderedJson* prompt = fields.find("prompt");
  if (fields.error()) return;
  if (prompt == nullptr) return fields.refuse("prompt", "prompt is missing: a text or a list of token ids");
  PromptReader reader(fields, words, add_special, spec);
  if (prompt->is_string()) return reader.read_text("prompt", *prompt);
  if (!prompt->is_array()) return fields.wrong_type("prompt", "a text, a list of token ids, or a list of either");
  if (prompt->empty()) return fields.refuse("prompt", "prompt is empty: it needs at least one token");
  if (prompt->front().is_number()) return reader.read_ids("prompt", *prompt);
  if (prompt->size() > kMaxPrompts)
    return fields.refuse(
        "prompt", "prompt has " + std::to_string(prompt->size()) + " entries: at most " + std::to_string(kMaxPrompts));
  for (std::size_t i = 0; i < prompt->size() && !fields.error(); ++i) {
    const OrderedJson& entry = (*prompt)[i];
    const std::string name = "prompt[" + std::to_string(i) + "]";
    if (entry.is_string())
      reader.read_text(name, entry);
    else if (entry.is_array())
      reader.read_ids(name, entry);
    else
      return fields.wrong_entry("prompt", i, entry, "a text or a list of token ids");
  }
}

}  // namespace

SpecResult read_completion_request(const OrderedJson& body, const Words& words) {
  SpecResult result;
  GenerationSpec& spec = result.spec;
  spec.sampling = words.defaults;
  Fields fields(body);
  read_common(fields, words, spec);
  refuse_unsupported(fields);
  if (fields.find("thinking_token_budget") != nullptr)
    fields.refuse("thinking_token_budget", "thinking_token_budget is for chat: a completion's reasoning is plain text");
  fields.store("echo", spec.echo);
  const int longest = answer_tokens(fields, "max_tokens", 0).value_or(kDefaultMaxTokens);
  spec.sampling.max_tokens = longest;
  if (longest == 0) {
    if (!spec.echo) fields.refuse("max_tokens", "max_tokens is 0: it must be at least 1 unless echo is true");
    spec.prompt_only = true;
    spec.sampling.max_tokens = 1;
    spec.sampling.min_tokens = 0;
  }
  if (const auto top = fields.integer("logprobs", 0, 20)) spec.logprobs = static_cast<int>(*top);
  bool add_special = true;
  fields.store("add_special_tokens", add_special);
  read_prompts(fields, words, add_special, spec);
  result.error = fields.error();
  return result;
}

}  // namespace octavo
