#include "server/wire_completions.h"

#include "server/wire_sampling.h"

namespace octavo {
namespace {

constexpr int kDefaultMaxTokens = 16;  // OpenAI's and vLLM's
constexpr std::size_t kMaxPrompts = 4096;

// Ids as they are, no BOS before them.
std::optional<PromptSpec> prompt_of_ids(Fields& fields, const OrderedJson& list, const Words& words,
                                        const GenerationSpec& spec) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const OrderedJson& entry : list) {
    const auto id = token_id(entry);
    if (!id || *id >= words.vocab) {
      fields.refuse("prompt", "the prompt holds " + to_text(entry).substr(0, 40) +
                                  ", which is no token id: those are " + "whole numbers from 0 to " +
                                  std::to_string(words.vocab - 1));
      return std::nullopt;
    }
    ids.push_back(*id);
  }
  return make_prompt(std::move(ids), words, spec);
}

std::optional<PromptSpec> prompt_of_text(Fields& fields, std::string text, const Words& words, bool add_special,
                                         const GenerationSpec& spec) {
  auto prompt = make_prompt(std::move(text), add_special, words, spec);
  if (prompt) return *std::move(prompt);
  fields.refuse("prompt", prompt.error().message());
  return std::nullopt;
}

void read_prompts(Fields& fields, const Words& words, bool add_special, GenerationSpec& spec) {
  const OrderedJson* prompt = fields.find("prompt");
  if (fields.error()) return;
  if (prompt == nullptr) return fields.refuse("prompt", "prompt is missing: a text or a list of token ids");
  const auto add = [&](std::optional<PromptSpec> one) {
    if (one) spec.prompts.push_back(std::move(*one));
    return !fields.error();
  };
  if (prompt->is_string()) {
    add(prompt_of_text(fields, prompt->get<std::string>(), words, add_special, spec));
    return;
  }
  if (!prompt->is_array()) return fields.wrong_type("prompt", "a text, a list of token ids, or a list of either");
  if (prompt->empty()) return fields.refuse("prompt", "prompt is empty: it needs at least one token");
  if (prompt->front().is_number()) {
    add(prompt_of_ids(fields, *prompt, words, spec));
    return;
  }
  if (prompt->size() > kMaxPrompts)
    return fields.refuse(
        "prompt", "prompt has " + std::to_string(prompt->size()) + " entries: at most " + std::to_string(kMaxPrompts));
  for (const OrderedJson& entry : *prompt) {
    if (entry.is_string()) {
      if (!add(prompt_of_text(fields, entry.get<std::string>(), words, add_special, spec))) return;
    } else if (entry.is_array()) {
      if (!add(prompt_of_ids(fields, entry, words, spec))) return;
    } else {
      return fields.wrong_type("prompt", "a text, a list of token ids, or a list of either");
    }
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
  const auto longest = fields.integer("max_tokens", 0).value_or(kDefaultMaxTokens);
  spec.sampling.max_tokens = static_cast<int>(longest);
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
