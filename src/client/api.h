// What a server of OpenAI's API answers, beside streams: its models, and why it refused. Every refusal is one sentence
// with the status, the server's own message and what the caller can do.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/http_client.h"

namespace octavo {

struct Reply {
  ReplyHead head;
  std::string body;
};

// One call, to its end. An error: there was no answer.
Result<Reply> ask(HttpClient& client, HttpCall call);

// "the server is busy (429): queue full; it says to come back in 3 s".
Error refusal(const Reply& reply);
// Of an error's JSON: {"error": {"message"}}, {"error": "..."}, {"detail"}; else the beginning of the text.
std::string error_message(const std::string& body);

struct ServedModel {
  std::string id;
  std::optional<std::int64_t> max_model_len;
};
Result<std::vector<ServedModel>> served_models(HttpClient& client);

// The served model of that name; the first one without a name. A server that does not list its models is believed to
// have the one that was named.
Result<ServedModel> choose_model(HttpClient& client, const std::string& name);

}  // namespace octavo
