#include "server/wire_chat.h"

#include <array>
#include <cstdint>

#include "base/strings.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

std::string at(std::size_t index) { return "messages[" + std::to_string(index) + "]"; }

// A string, nothing, or a list of text parts, which are joined by line breaks.
std::optional<std::string> content_text(Fields& fields, const OrderedJson& message, std::size_t index) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return "";
  if (content->is_string()) return content->get<std::string>();
  const auto fail = [&](const std::string& what) {
    fields.refuse("messages", at(index) + ".content " + what);
    return std::nullopt;
  };
  if (!content->is_array()) return fail("must be a string or a list of parts");
  std::string text;
  bool first = true;
  for (const OrderedJson& part : *content) {
    if (part.is_string()) {
      text += (first ? "" : "\n") + part.get<std::string>();
    } else if (part.is_object()) {
      const auto type = part.find("type");
      const std::string kind = type != part.end() && type->is_string() ? type->get<std::string>() : "";
      if (kind != "text" && kind != "input_text" && kind != "output_text" && kind != "refusal")
        return fail("has a part of type " + in_quotes(kind) + ": this model reads text only");
      const auto value = part.find(kind == "refusal" ? "refusal" : "text");
      if (value == part.end() || !value->is_string()) return fail("has a text part without its text");
      text += (first ? "" : "\n") + value->get<std::string>();
    } else {
      return fail("holds a part that is neither an object nor a string");
    }
    first = false;
  }
  return text;
}

// Most templates want a call's arguments as an object; clients send them as a string. What the model wrote and is no
// JSON stays as it is.
bool read_tool_calls(Fields& fields, const Words& words, const OrderedJson& message, std::size_t index,
                     OrderedJson& result) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return true;
  const auto fail = [&](const std::string& what) {
    fields.refuse("messages", at(index) + ".tool_calls " + what);
    return false;
  };
  if (!calls->is_array()) return fail("must be a list");
  OrderedJson list = OrderedJson::array();
  for (OrderedJson call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      return fail("must be a list of {\"id\", \"type\", \"function\"}");
    OrderedJson& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) return fail("has a call without function.name");
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || arguments->is_null()) {
      function["arguments"] = words.history.text_arguments ? OrderedJson("{}") : OrderedJson::object();
    } else if (words.history.text_arguments) {
      if (!arguments->is_string()) *arguments = to_text(*arguments);
    } else if (arguments->is_string()) {
      const std::string text = arguments->get<std::string>();
      auto parsed = trim(text).empty() ? Result<OrderedJson>(OrderedJson::object()) : parse_ordered_json(text, "");
      if (parsed && parsed->is_object()) *arguments = *std::move(parsed);
    } else if (!arguments->is_object()) {
      return fail("has function.arguments that are neither a string nor an object");
    }
    list.push_back(std::move(call));
  }
  if (list.empty()) return true;
  result["tool_calls"] = std::move(list);
  if (words.history.null_content && result["content"] == "") result["content"] = nullptr;
  return true;
}

bool read_message(Fields& fields, const Words& words, const OrderedJson& message, std::size_t index,
                  OrderedJson& messages) {
  const auto fail = [&](const std::string& what) {
    fields.refuse("messages", at(index) + what);
    return false;
  };
  if (!message.is_object()) return fail(" must be an object");
  const auto role = message.find("role");
  if (role == message.end() || role->is_null()) return fail(".role is missing");
  if (!role->is_string()) return fail(".role must be a string");
  const std::string name = role->get<std::string>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end())
    return fail(".role is " + in_quotes(name) + ": it must be system, developer, user, assistant or tool");
  OrderedJson result;
  result["role"] = name == "developer" ? "system" : name;
  const auto content = content_text(fields, message, index);
  if (!content) return false;
  result["content"] = *content;
  if (name == "assistant" && !read_tool_calls(fields, words, message, index, result)) return false;
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning"}) {
    const auto value = message.find(key);
    if (value == message.end() || value->is_null()) continue;
    if (!value->is_string()) return fail("." + std::string(key) + " must be a string");
    result[key] = *value;
  }
  if (result.contains("reasoning") && !result.contains("reasoning_content"))
    result["reasoning_content"] = result["reasoning"];
  messages.push_back(std::move(result));
  return true;
}

void read_tools(Fields& fields, ChatInput& input) {
  const OrderedJson* tools = fields.array("tools");
  if (tools != nullptr && !tools->empty()) {
    for (std::size_t i = 0; i < tools->size(); ++i) {
      const OrderedJson& tool = (*tools)[i];
      const bool good = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                        tool["function"].contains("name") && tool["function"]["name"].is_string();
      if (!good)
        return fields.refuse("tools", "tools[" + std::to_string(i) +
                                          "] must be {\"type\": \"function\", \"function\": {\"name\", ...}}");
    }
    input.tools = *tools;
  }
  const OrderedJson* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    const std::string text = choice->get<std::string>();
    if (text == "none") input.tools = nullptr;  // what the model does not know of it does not call
    if (text == "none" || text == "auto") return;
    if (text != "required")
      return fields.refuse("tool_choice", "tool_choice is " + in_quotes(text) +
                                              ": it must be none, auto, required or an object that names a function");
  } else if (!choice->is_object()) {
    return fields.wrong_type("tool_choice", "a string or an object");
  }
  if (input.tools.is_null()) return fields.refuse("tool_choice", "tool_choice needs tools");
  fields.refuse("tool_choice", "tool_choice required or a named function is not supported yet: only none and auto are");
}

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
  const OrderedJson* messages = fields.array("messages");
  if (messages == nullptr) return fields.refuse("messages", "messages is missing: a list of at least one message");
  if (messages->empty()) return fields.refuse("messages", "messages is empty: at least one message is needed");
  for (std::size_t i = 0; i < messages->size(); ++i)
    if (!read_message(fields, words, (*messages)[i], i, input.messages)) return;
  read_tools(fields, input);
  input.variables = OrderedJson::object();
  if (const auto effort = fields.text("reasoning_effort")) input.variables["reasoning_effort"] = *effort;
  if (const OrderedJson* documents = fields.array("documents")) input.variables["documents"] = *documents;
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
  auto longest = fields.integer("max_completion_tokens", 1);
  if (!longest) longest = fields.integer("max_tokens", 1);
  spec.sampling.max_tokens = static_cast<int>(longest.value_or(0));
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
    result.error = ApiError{.status = 400, .message = rendered.error().message(), .param = "messages"};
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
