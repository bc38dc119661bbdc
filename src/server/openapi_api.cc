#include <algorithm>
#include <cctype>
#include <string_view>

#include "server/apis.h"

namespace octavo {
namespace {

enum class Kind { boolean, integer, number, text, object, objects, texts, ids, any };

struct Field {
  const char* name;
  Kind kind;
  std::optional<double> low = {}, high = {};
};

struct BodyRow {
  std::string_view path;
  std::vector<Field> fields;
  std::vector<std::string> required;
};

std::vector<Field> sampling_fields() {
  return {{"model", Kind::text},
          {"stream", Kind::boolean},
          {"stream_options", Kind::object},
          {"temperature", Kind::number, 0},
          {"top_p", Kind::number, 0, 1},
          {"top_k", Kind::integer, -1},
          {"min_p", Kind::number, 0, 1},
          {"presence_penalty", Kind::number, -2, 2},
          {"frequency_penalty", Kind::number, -2, 2},
          {"repetition_penalty", Kind::number, 0},
          {"max_tokens", Kind::integer, 0},
          {"min_tokens", Kind::integer, 0},
          {"n", Kind::integer, 1, 128},
          {"seed", Kind::integer},
          {"stop", Kind::any},
          {"stop_token_ids", Kind::ids},
          {"include_stop_str_in_output", Kind::boolean},
          {"ignore_eos", Kind::boolean},
          {"skip_special_tokens", Kind::boolean},
          {"return_token_ids", Kind::boolean},
          {"return_tokens_as_token_ids", Kind::boolean},
          {"logit_bias", Kind::object},
          {"allowed_token_ids", Kind::ids},
          {"bad_words", Kind::texts},
          {"truncate_prompt_tokens", Kind::integer, -1},
          {"prompt_logprobs", Kind::integer, 0, 20},
          {"priority", Kind::integer},
          {"user", Kind::text},
          {"request_id", Kind::text},
          {"cache_salt", Kind::text}};
}

std::vector<Field> with(std::vector<Field> fields, std::initializer_list<Field> more) {
  fields.insert(fields.end(), more);
  return fields;
}

std::vector<BodyRow> body_rows() {
  const std::vector<Field> chat = with(sampling_fields(), {{"messages", Kind::objects},
                                                           {"max_completion_tokens", Kind::integer, 1},
                                                           {"logprobs", Kind::boolean},
                                                           {"top_logprobs", Kind::integer, 0, 20},
                                                           {"tools", Kind::objects},
                                                           {"tool_choice", Kind::any},
                                                           {"parallel_tool_calls", Kind::boolean},
                                                           {"include_reasoning", Kind::boolean},
                                                           {"chat_template_kwargs", Kind::object},
                                                           {"add_generation_prompt", Kind::boolean},
                                                           {"continue_final_message", Kind::boolean},
                                                           {"documents", Kind::objects},
                                                           {"thinking_token_budget", Kind::integer},
                                                           {"reasoning_effort", Kind::text}});
  const std::vector<Field> completion = with(sampling_fields(), {{"prompt", Kind::any},
                                                                 {"echo", Kind::boolean},
                                                                 {"logprobs", Kind::integer, 0, 20},
                                                                 {"add_special_tokens", Kind::boolean}});
  return {{"/v1/chat/completions", chat, {"messages"}},
          {"/v1/chat/completions/render", chat, {"messages"}},
          {"/v1/completions", completion, {"prompt"}},
          {"/v1/completions/render", completion, {"prompt"}},
          {"/tokenize",
           {{"model", Kind::text},
            {"prompt", Kind::text},
            {"messages", Kind::objects},
            {"add_special_tokens", Kind::boolean},
            {"return_token_strs", Kind::boolean}},
           {}},
          {"/detokenize", {{"model", Kind::text}, {"tokens", Kind::ids}}, {"tokens"}},
          {"/abort_requests", {{"request_ids", Kind::texts}, {"abort_all", Kind::boolean}}, {}}};
}

// What must be there must not be null.
OrderedJson field_json(const Field& field, bool required) {
  OrderedJson schema = OrderedJson::object();
  constexpr const char* kNames[] = {"boolean", "integer", "number", "string", "object", "array", "array", "array"};
  if (field.kind != Kind::any) {
    const char* name = kNames[static_cast<int>(field.kind)];
    schema["type"] = required ? OrderedJson(name) : OrderedJson{name, "null"};
  }
  if (field.kind == Kind::objects) schema["items"]["type"] = "object";
  if (field.kind == Kind::texts) schema["items"]["type"] = "string";
  if (field.kind == Kind::ids) schema["items"] = {{"type", "integer"}, {"minimum", 0}};
  if (field.low) schema["minimum"] = *field.low;
  if (field.high) schema["maximum"] = *field.high;
  return schema;
}

OrderedJson body_json(const BodyRow& row) {
  OrderedJson schema;
  schema["type"] = "object";
  schema["properties"] = OrderedJson::object();
  for (const Field& field : row.fields) {
    const bool required = std::find(row.required.begin(), row.required.end(), field.name) != row.required.end();
    schema["properties"][field.name] = field_json(field, required);
  }
  if (!row.required.empty()) schema["required"] = row.required;
  OrderedJson body;
  body["required"] = true;
  body["content"]["application/json"]["schema"] = std::move(schema);
  return body;
}

OrderedJson operation(const Route& route, const std::vector<BodyRow>& rows) {
  OrderedJson result;
  std::string id = route.method + route.path;
  std::replace_if(
      id.begin(), id.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  result["operationId"] = id;
  if (route.path.ends_with('}')) {
    OrderedJson parameter;
    parameter["name"] = "model";
    parameter["in"] = "path";
    parameter["required"] = true;
    parameter["schema"]["type"] = "string";
    result["parameters"] = OrderedJson::array({std::move(parameter)});
  }
  const auto same = [&](const BodyRow& row) { return row.path == route.path; };
  const auto row = std::find_if(rows.begin(), rows.end(), same);
  if (route.method == "POST" && row != rows.end()) result["requestBody"] = body_json(*row);
  result["responses"]["200"]["description"] = "the answer";
  result["responses"]["default"]["description"] = "an error";
  result["responses"]["default"]["content"]["application/json"]["schema"]["$ref"] = "#/components/schemas/Error";
  return result;
}

OrderedJson openapi(const Router& router) {
  OrderedJson page;
  page["openapi"] = "3.1.0";
  page["info"] = {{"title", "octavo"}, {"version", OCTAVO_VERSION}};
  const std::vector<BodyRow> rows = body_rows();
  for (const Route& route : router.routes()) {
    if (!route.for_programs) continue;
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    page["paths"][route.path][method] = operation(route, rows);
  }
  OrderedJson error;
  error["type"] = "object";
  error["properties"]["error"]["type"] = "object";
  error["required"] = {"error"};
  page["components"]["schemas"]["Error"] = std::move(error);
  return page;
}

}  // namespace

void add_openapi_route(Router& router) {
  router.add({"GET", "/openapi.json", [&router](Service&, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond(json_response(openapi(router)));
              }});
}

}  // namespace octavo
