#include "client/api.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

class Collector final : public CallListener {
 public:
  void on_head(const ReplyHead& head) override { reply.head = head; }
  void on_body(std::string_view bytes) override { reply.body += bytes; }
  void on_end(const Status& status) override { ended = status; }

  Reply reply;
  std::optional<Status> ended;
};

std::string with_message(const std::string& text, const std::string& message) {
  return message.empty() ? text : text + ": " + message;
}

}  // namespace

Result<Reply> ask(HttpClient& client, HttpCall call) {
  const auto collector = std::make_shared<Collector>();
  client.call(std::move(call), collector);
  client.run();
  if (!collector->ended) return Error("the call did not end", ErrorKind::internal);
  OCTAVO_TRY(*collector->ended);
  return std::move(collector->reply);
}

std::string error_message(const std::string& body) {
  const Result<Json> json = parse_json(body, "the answer");
  if (!json || !json->is_object()) {
    const std::string_view text = trim(body);
    return text.empty() ? std::string() : in_quotes(text.substr(0, 200));
  }
  const Json* error = find_member(*json, "error");
  if (error != nullptr && error->is_object()) error = find_member(*error, "message");
  if (error == nullptr) error = find_member(*json, "message");
  if (error == nullptr) error = find_member(*json, "detail");
  if (error == nullptr) return in_quotes(std::string_view(body).substr(0, 200));
  std::string text = error->is_string() ? error->get<std::string>() : to_text(*error);
  // It is shown on a terminal, in one line.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  return text;
}

Error refusal(const Reply& reply) {
  const int status = reply.head.status;
  const std::string number = " (" + std::to_string(status) + ")";
  const std::string message = error_message(reply.body);
  if (status == 401 || status == 403)
    return Error(with_message("the server wants a key that it knows" + number, message) + "; --api-key gives one");
  if (status == 429 || status == 503) {
    const std::string what = status == 429 ? "the server is busy" : "the server cannot serve now";
    std::string text = with_message(what + number, message);
    if (!reply.head.retry_after.empty())
      text += "; it says to come back in " + std::string(trim(reply.head.retry_after)) + " s";
    return Error(text, ErrorKind::exhausted);
  }
  if (status == 404)
    return Error(with_message("the server does not have that" + number, message), ErrorKind::not_found);
  if (status >= 300 && status < 400)
    return Error("the server sends elsewhere" + number + ": give its own address with --base-url");
  if (status >= 500) return Error(with_message("the server failed" + number, message), ErrorKind::unavailable);
  return Error(with_message("the server refuses" + number, message));
}

Result<std::vector<ServedModel>> served_models(HttpClient& client) {
  OCTAVO_TRY(const Reply reply, ask(client, {.route = "/v1/models"}));
  if (reply.head.status != 200) return refusal(reply);
  OCTAVO_TRY(const Json json, parse_json(reply.body, "/v1/models"));
  std::vector<ServedModel> models;
  const Json* list = find_member(json, "data");
  if (list == nullptr || !list->is_array())
    return Error("/v1/models answers without a list of models", ErrorKind::not_found);
  for (const Json& entry : *list) {
    OCTAVO_TRY(std::string id, get_string(entry, "id").in("/v1/models"));
    const auto length = find_int(entry, "max_model_len");
    models.push_back({std::move(id), length ? *length : std::nullopt});
  }
  return models;
}

Result<ServedModel> choose_model(HttpClient& client, const std::string& name) {
  const auto models = served_models(client);
  if (!models && models.error().kind() == ErrorKind::not_found && !name.empty()) return ServedModel{name, std::nullopt};
  if (!models && models.error().kind() == ErrorKind::not_found)
    return Error("the server does not list its models: name one with --model");
  if (!models) return models.error();
  std::vector<std::string> ids;
  for (const ServedModel& model : *models) {
    if (name.empty() || model.id == name) return model;
    ids.push_back(model.id);
  }
  if (ids.empty()) return Error("the server serves no model");
  return Error("the server does not serve " + in_quotes(name) + "; it has " + join(ids, ", "));
}

}  // namespace octavo
