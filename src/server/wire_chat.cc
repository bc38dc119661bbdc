#include "server/wire_chat.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/strings.h"
#include "server/wire_messages.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

std::string final_content(const ChatInput& input) {
  const OrderedJson& content = input.messages.back()["content"];
  return content.is_string() ? content.get<std::string>() : std::string();
}

// The text up to the end of the last message's content, so that the model goes on with it.
Result<std::string> cut_after_final(std::string rendered, const std::string& content) {
  for (const std::string_view text : {std::string_view(content), trim(content)}) {
    const std::size_t place = rendered.rfind(text);
    if (text.empty() || place == std::string::npos) continue;
    rendered.resize(place + text.size());
    return rendered;
  }
  return Error("continue_final_message: the last message's content is not in the rendered prompt");
}

// vLLM's words; a template that knows others is told by chat_template_kwargs.
void read_effort(Fields& fields, OrderedJson& variables) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  const auto effort = fields.text("reasoning_effort");
  if (!effort) return;
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end())
    return fields.refuse("reasoning_effort", "reasoning_effort is " + in_quotes(*effort) +
                                                 ": it must be none, minimal, low, medium, high, xhigh or max");
  variables["reasoning_effort"] = *effort;
}

void read_documents(Fields& fields, OrderedJson& variables) {
  const OrderedJson* documents = fields.array("documents");
  if (documents == nullptr) return;
  for (std::size_t i = 0; i < documents->size(); ++i)
    if (!(*documents)[i].is_object()) return fields.wrong_entry("documents", i, (*documents)[i], "an object");
  variables["documents"] = *documents;
}

// OpenAI's older or other ways to ask for what this server gives in one way, or not at all.
void refuse_other_ways(Fields& fields) {
  if (const OrderedJson* functions = fields.array("functions"); functions != nullptr && !functions->empty())
    fields.refuse("functions", "functions is the older form of tools and is not supported: send tools");
  if (const OrderedJson* call = fields.find("function_call"); call != nullptr && *call != "none" && *call != "auto")
    fields.refuse("function_call", "function_call is not supported: send tools with tool_choice auto or none");
  const OrderedJson* modalities = fields.array("modalities");
  if (modalities == nullptr) return;
  for (std::size_t i = 0; i < modalities->size(); ++i)
    if ((*modalities)[i] != "text")
      return fields.wrong_entry("modalities", i, (*modalities)[i], "\"text\" (this model writes nothing else)");
}

// How the answer to this prompt is to be read.
AnswerPlan answer_plan(const ChatInput& input, const Words& words, const std::string& prompt) {
  AnswerPlan plan;
  plan.reasoning = words.formats.reasoning;
  if (!input.tools.is_null()) {
    plan.calls = words.formats.calls;
    plan.tools = std::make_shared<const OrderedJson>(input.tools);
  }
  const std::string last = final_content(input);
  read_prompt_end(prompt, input.continue_final_message ? &last : nullptr, plan);
  return plan;
}

// Reasoning can be ended where it stands between tags that the model's own tokens write.
Status bound_reasoning(const Words& words, int tokens, GenerationSpec& spec) {
  const AnswerPlan& plan = spec.answer;
  if (plan.reasoning != ReasoningFormat::tags && plan.reasoning != ReasoningFormat::tags_opened)
    return Error("thinking_token_budget needs a model that reasons between " + std::string(kThinkBegin) + " and " +
                 std::string(kThinkEnd) + ", and of this one it is not known");
  if (plan.think == ThinkStart::closed) return {};  // there is none
  ReasoningBudget budget{.begin = {}, .end = {}, .tokens = tokens, .open = plan.think_open()};
  OCTAVO_TRY(budget.begin, words.tokenizer.encode(kThinkBegin, {.parse_special = true, .add_special = false}));
  OCTAVO_TRY(budget.end, words.tokenizer.encode(kThinkEnd, {.parse_special = true, .add_special = false}));
  spec.sampling.reasoning = std::move(budget);
  return {};
}

}  // namespace

void read_chat_input(Fields& fields, const Words& words, ChatInput& input) {
  read_messages(fields, words, input.messages);
  read_tools(fields, input.tools);
  input.variables = OrderedJson::object();
  read_effort(fields, input.variables);
  read_documents(fields, input.variables);
  if (const OrderedJson* kwargs = fields.object("chat_template_kwargs")) input.variables.update(*kwargs);
  fields.store("add_generation_prompt", input.add_generation_prompt);
  fields.store("continue_final_message", input.continue_final_message);
  fields.store("add_special_tokens", input.add_special_tokens);
  fields.store("echo", input.echo);
  input.chat_template = fields.text("chat_template");
  if (input.chat_template && !words.trust_request_template)
    fields.refuse("chat_template",
                  "chat_template in a request is only taken with --trust-request-chat-template at the server");
  if (input.continue_final_message && input.add_generation_prompt)
    fields.refuse("continue_final_message",
                  "continue_final_message and add_generation_prompt cannot both be true: set the latter to false");
}

const char* blamed_field(const ChatInput& input) { return input.chat_template ? "chat_template" : "messages"; }

Result<std::string> render_chat(const ChatInput& input, const Words& words) {
  std::optional<ChatTemplate> own;
  if (input.chat_template) {
    OCTAVO_TRY(own, ChatTemplate::parse(*input.chat_template));
  }
  if (!own && !words.chat_template)
    return Error("this model has no chat template (" + words.no_template + "): use /v1/completions");
  OrderedJson variables = words.chat_template ? words.chat_template->special : OrderedJson::object();
  variables.update(input.variables);
  variables["messages"] = input.messages;
  variables["tools"] = input.tools;
  variables["add_generation_prompt"] = input.add_generation_prompt;
  OCTAVO_TRY(std::string rendered, (own ? *own : words.chat_template->chat_template).render(variables));
  if (!input.continue_final_message) return rendered;
  return cut_after_final(std::move(rendered), final_content(input));
}

SpecResult read_chat_request(const OrderedJson& body, const Words& words) {
  SpecResult result;
  GenerationSpec& spec = result.spec;
  spec.sampling = words.defaults;
  Fields fields(body);
  read_common(fields, words, spec);
  refuse_unsupported(fields);
  refuse_other_ways(fields);
  const int longest = answer_tokens(fields, "max_tokens", 1).value_or(0);
  spec.sampling.max_tokens = answer_tokens(fields, "max_completion_tokens", 1).value_or(longest);
  const bool wanted = fields.flag("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top.value_or(0) > 0 && !wanted)
    fields.refuse("top_logprobs", "top_logprobs can only be given with logprobs: true");
  if (wanted) spec.logprobs = static_cast<int>(top.value_or(0));
  const bool single_call = !fields.flag("parallel_tool_calls").value_or(true);
  const bool include_reasoning = fields.flag("include_reasoning").value_or(true);
  const auto thinking = fields.integer("thinking_token_budget", 0, INT32_MAX);
  ChatInput input;
  read_chat_input(fields, words, input);
  result.error = fields.error();
  if (result.error) return result;

  const auto rendered = render_chat(input, words);
  if (!rendered) {
    result.error = ApiError{.status = 400, .message = rendered.error().message(), .param = blamed_field(input)};
    return result;
  }
  auto prompt = make_prompt(*rendered, input.add_special_tokens, words, spec);
  if (!prompt) {
    result.error = api_error(prompt.error(), "messages");
    return result;
  }
  spec.echo = input.echo && input.messages.back()["role"] == "assistant";
  if (spec.echo) prompt->echo = final_content(input);
  spec.answer = answer_plan(input, words, *rendered);
  spec.answer.single_call = single_call;
  spec.answer.include_reasoning = include_reasoning;
  if (thinking) {
    if (const Status bounded = bound_reasoning(words, static_cast<int>(*thinking), spec); !bounded)
      result.error = ApiError{.status = 400, .message = bounded.error().message(), .param = "thinking_token_budget"};
  }
  if (!spec.answer.plain() && words.special_marks) spec.skip_special = false;
  spec.prompts.push_back(*std::move(prompt));
  return result;
}

}  // namespace octavo
