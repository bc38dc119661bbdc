#include "server/openapi_bodies.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/request_check.h"
#include "server/http_message.h"
#include "server/wire_completions.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr std::int64_t kLargestInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLargestCount = std::numeric_limits<std::int64_t>::max();

struct BodyField {
  const char* name;
  OrderedJson schema;  // of a value that is not null
};
using BodyFields = std::vector<BodyField>;

OrderedJson typed(const char* type) { return OrderedJson{{"type", type}}; }

OrderedJson whole(std::int64_t low, std::int64_t high = kLargestInt) {
  return OrderedJson{{"type", "integer"}, {"minimum", low}, {"maximum", high}};
}

OrderedJson real(double low, double high) {
  return OrderedJson{{"type", "number"}, {"minimum", low}, {"maximum", high}};
}
OrderedJson positive(double high) {
  return OrderedJson{{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", high}};
}

OrderedJson list_of(OrderedJson items, std::size_t least = 0, std::size_t most = 0) {
  OrderedJson list{{"type", "array"}, {"items", std::move(items)}};
  if (least > 0) list["minItems"] = least;
  if (most > 0) list["maxItems"] = most;
  return list;
}

OrderedJson one_of(std::initializer_list<const char*> values) {
  OrderedJson list = OrderedJson::array();
  for (const char* value : values) list.push_back(value);
  return OrderedJson{{"enum", std::move(list)}};
}

OrderedJson any_of(std::vector<OrderedJson> choices) {
  OrderedJson schema = OrderedJson::object();
  schema["anyOf"] = std::move(choices);
  return schema;
}

OrderedJson or_null(OrderedJson schema) {
  if (schema.contains("anyOf"))
    schema["anyOf"].push_back(typed("null"));
  else if (schema.contains("enum"))
    schema["enum"].push_back(nullptr);
  else if (schema.contains("type"))
    schema["type"] = {schema["type"], "null"};
  return schema;
}

// An object that must have `required`, and may have the others or null in their place.
OrderedJson object_of(const BodyFields& fields, const std::vector<std::string>& required) {
  OrderedJson schema = typed("object");
  schema["properties"] = OrderedJson::object();
  for (const BodyField& field : fields) {
    const bool needed = std::find(required.begin(), required.end(), field.name) != required.end();
    schema["properties"][field.name] = needed ? field.schema : or_null(field.schema);
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

// "Where the field is this": it must be there. "Where it is not": absent, null, or one of `others`.
OrderedJson where(const char* field, OrderedJson is) {
  OrderedJson schema;
  schema["properties"][field] = std::move(is);
  schema["required"] = OrderedJson::array({field});
  return schema;
}
OrderedJson unless(const char* field, OrderedJson others = OrderedJson::array()) {
  others.push_back(nullptr);
  OrderedJson schema;
  schema["properties"][field]["enum"] = std::move(others);
  return schema;
}
OrderedJson is_true() { return OrderedJson{{"const", true}}; }

OrderedJson id_of(const Words& words) { return whole(0, words.vocab - 1); }
OrderedJson some_text() { return OrderedJson{{"type", "string"}, {"minLength", 1}}; }

OrderedJson bias_of(const Words& words) {
  OrderedJson bias = typed("object");
  bias["propertyNames"] = {{"pattern", ids_pattern(words.vocab - 1)}};
  bias["additionalProperties"] = real(-100, 100);
  return bias;
}

OrderedJson truncation(const Words& words) {
  return any_of({OrderedJson{{"const", -1}}, whole(1, words.max_model_len)});
}

BodyFields sampling_fields(const Words& words) {
  const OrderedJson boolean = typed("boolean"), text = typed("string");
  const std::int64_t low = std::numeric_limits<std::int32_t>::min();
  OrderedJson names = OrderedJson{{"enum", words.names}};
  OrderedJson word = OrderedJson{{"type", "string"}, {"pattern", "[^ \\t\\r\\n]"}};
  OrderedJson request_id = OrderedJson{{"type", "string"}, {"pattern", "^[ -~]*$"}, {"maxLength", kMaxRequestId}};
  return {
      {"model", names},
      {"stream", boolean},
      {"stream_options", object_of({{"include_usage", boolean}, {"continuous_usage_stats", boolean}}, {})},
      {"temperature", real(0, kLargest)},
      {"top_p", positive(1)},
      {"top_k", whole(-1)},
      {"min_p", real(0, 1)},
      {"presence_penalty", real(-2, 2)},
      {"frequency_penalty", real(-2, 2)},
      {"repetition_penalty", positive(kLargest)},
      {"min_tokens", whole(0)},
      {"n", whole(1, kMaxContinuations)},
      {"seed", whole(std::numeric_limits<std::int64_t>::min(), kLargestCount)},
      {"stop", any_of({some_text(), list_of(some_text(), 0, kMaxStops)})},
      {"stop_token_ids", list_of(id_of(words))},
      {"include_stop_str_in_output", boolean},
      {"ignore_eos", boolean},
      {"skip_special_tokens", boolean},
      {"return_token_ids", boolean},
      {"return_tokens_as_token_ids", boolean},
      {"logit_bias", bias_of(words)},
      {"allowed_token_ids", list_of(id_of(words), 1, kMaxListedTokens)},
      {"bad_words", list_of(word, 0, kMaxListedTokens / 2)},
      {"truncate_prompt_tokens", truncation(words)},
      {"prompt_logprobs", whole(0, kMaxLogprobs)},
      {"priority", whole(low)},
      {"user", text},
      {"request_id", request_id},
      {"cache_salt", text},
  };
}

OrderedJson part_of_content() {
  const OrderedJson text = typed("string");
  return any_of({text,
                 object_of({{"type", one_of({"text", "input_text", "output_text"})}, {"text", text}}, {"type", "text"}),
                 object_of({{"type", one_of({"refusal"})}, {"refusal", text}}, {"type", "refusal"})});
}

OrderedJson message_of() {
  const OrderedJson text = typed("string");
  const OrderedJson content = or_null(any_of({text, list_of(part_of_content())}));
  const OrderedJson called =
      object_of({{"name", some_text()}, {"arguments", any_of({text, typed("object")})}}, {"name"});
  const OrderedJson call =
      object_of({{"id", text}, {"type", one_of({"function"})}, {"function", called}}, {"function"});
  const BodyFields more = {{"name", text}, {"tool_call_id", text}, {"reasoning", text}, {"reasoning_content", text}};
  BodyFields asked = {{"role", one_of({"system", "developer", "user", "tool"})}, {"content", content}};
  BodyFields answered = {{"role", one_of({"assistant"})}, {"content", content}, {"tool_calls", list_of(call)}};
  for (const BodyField& field : more) {
    asked.push_back(field);
    answered.push_back(field);
  }
  OrderedJson question = object_of(asked, {"role", "content"});
  question["properties"]["tool_calls"] = OrderedJson{{"type", {"array", "null"}}, {"maxItems", 0}};
  return any_of({std::move(question), object_of(answered, {"role"})});
}

OrderedJson tool_of() {
  const OrderedJson text = typed("string"), object = typed("object");
  const OrderedJson function = object_of(
      {{"name", some_text()}, {"description", text}, {"parameters", object}, {"strict", typed("boolean")}}, {"name"});
  return object_of({{"type", one_of({"function"})}, {"function", function}}, {"function"});
}

// What a template is given.
BodyFields template_fields() {
  const OrderedJson boolean = typed("boolean"), object = typed("object");
  return {{"messages", list_of(message_of(), 1)},
          {"tools", list_of(tool_of())},
          {"tool_choice", one_of({"none", "auto"})},
          {"reasoning_effort", one_of({"none", "minimal", "low", "medium", "high", "xhigh", "max"})},
          {"documents", list_of(object)},
          {"chat_template_kwargs", object},
          {"add_generation_prompt", boolean},
          {"continue_final_message", boolean},
          {"add_special_tokens", boolean},
          {"echo", boolean}};
}

OrderedJson tools_or_no_choice() { return any_of({where("tools", typed("array")), unless("tool_choice", {"none"})}); }
OrderedJson begins_or_goes_on() {
  return any_of(
      {where("add_generation_prompt", OrderedJson{{"const", false}}), unless("continue_final_message", {false})});
}

// What only a stream has, and what a stream does not have.
OrderedJson streamed_or_whole() {
  OrderedJson streamed = where("stream", is_true()), whole = unless("stream", {false});
  streamed["properties"]["prompt_logprobs"] = typed("null");
  whole["properties"]["stream_options"] = typed("null");
  return any_of({std::move(streamed), std::move(whole)});
}

OrderedJson chat_body(const Words& words) {
  BodyFields fields = sampling_fields(words);
  for (BodyField& field : template_fields()) fields.push_back(std::move(field));
  fields.push_back({"max_tokens", whole(1, kLargestCount)});
  fields.push_back({"max_completion_tokens", whole(1, kLargestCount)});
  fields.push_back({"logprobs", typed("boolean")});
  fields.push_back({"top_logprobs", whole(0, kMaxLogprobs)});
  fields.push_back({"parallel_tool_calls", typed("boolean")});
  fields.push_back({"include_reasoning", typed("boolean")});
  if (words.formats.reasoning == ReasoningFormat::tags || words.formats.reasoning == ReasoningFormat::tags_opened)
    fields.push_back({"thinking_token_budget", whole(0)});
  OrderedJson schema = object_of(fields, {"messages"});
  schema["allOf"] = {streamed_or_whole(), tools_or_no_choice(), begins_or_goes_on(),
                     any_of({where("logprobs", is_true()), unless("top_logprobs", {0})})};
  return schema;
}

OrderedJson completion_body(const Words& words) {
  BodyFields fields = sampling_fields(words);
  const OrderedJson ids = list_of(id_of(words), 1);
  const OrderedJson several = list_of(any_of({some_text(), ids}), 1, kMaxPrompts);
  fields.push_back({"prompt", any_of({some_text(), ids, several})});
  fields.push_back({"max_tokens", whole(0, kLargestCount)});
  fields.push_back({"echo", typed("boolean")});
  fields.push_back({"logprobs", whole(0, kMaxLogprobs)});
  fields.push_back({"add_special_tokens", typed("boolean")});
  OrderedJson schema = object_of(fields, {"prompt"});
  OrderedJson some_answer;
  some_answer["properties"]["max_tokens"] = or_null(whole(1, kLargestCount));
  schema["allOf"] = {streamed_or_whole(), any_of({where("echo", is_true()), std::move(some_answer)})};
  return schema;
}

// A text, or messages beside which a text is not looked at further.
OrderedJson tokenize_body(const Words& words) {
  const OrderedJson text = typed("string");
  BodyFields of_text = {
      {"model", OrderedJson{{"enum", words.names}}}, {"return_token_strs", typed("boolean")}, {"prompt", text}};
  BodyFields of_chat = of_text;
  of_text.push_back({"add_special_tokens", typed("boolean")});
  for (BodyField& field : template_fields()) of_chat.push_back(std::move(field));
  OrderedJson alone = object_of(of_text, {"prompt"}), chat = object_of(of_chat, {"messages"});
  alone["properties"]["messages"] = typed("null");
  chat["allOf"] = {tools_or_no_choice(), begins_or_goes_on()};
  return any_of({std::move(alone), std::move(chat)});
}

OrderedJson abort_body() {
  const OrderedJson ids = list_of(typed("string"));
  OrderedJson schema = object_of({{"request_ids", ids}, {"abort_all", typed("boolean")}}, {});
  schema["anyOf"] = {where("request_ids", typed("array")), where("abort_all", is_true())};
  return schema;
}

}  // namespace

std::string ids_pattern(int last) {
  const std::string digits = std::to_string(last);
  const auto any = [](std::size_t count) {
    return count == 0 ? std::string() : "[0-9]{" + std::to_string(count) + "}";
  };
  std::string pattern = "^(0";
  for (std::size_t length = 1; length < digits.size(); ++length) pattern += "|[1-9]" + any(length - 1);
  for (std::size_t place = 0; place < digits.size(); ++place) {
    const char least = place == 0 ? '1' : '0', own = digits[place];
    if (own <= least) continue;
    pattern += "|" + digits.substr(0, place) + "[" + least + "-" + static_cast<char>(own - 1) + "]" +
               any(digits.size() - place - 1);
  }
  return pattern + (last > 0 ? "|" + digits : "") + ")$";
}

std::optional<OrderedJson> body_schema(std::string_view path, const Words& words) {
  if (path.starts_with("/v1/chat/completions")) return chat_body(words);
  if (path.starts_with("/v1/completions")) return completion_body(words);
  if (path == "/tokenize") return tokenize_body(words);
  if (path == "/detokenize")
    return object_of({{"model", OrderedJson{{"enum", words.names}}}, {"tokens", list_of(id_of(words))}}, {"tokens"});
  if (path == "/abort_requests") return abort_body();
  return std::nullopt;
}

}  // namespace octavo
