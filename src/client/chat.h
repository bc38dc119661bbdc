// `octavo chat`: a conversation in the terminal with any server of OpenAI's API; or one answer to a prompt. Answers go
// to stdout, all else to stderr. Ctrl-C ends an answer and its work on the server, not the chat.
#pragma once

#include <optional>
#include <string>

#include "client/http_client.h"
#include "terminal/console.h"

namespace octavo {

struct ChatOptions {
  ClientConfig client;
  std::string model;                  // empty: the first that is served
  std::optional<std::string> prompt;  // absent: a chat at a terminal, else all of stdin
  std::string system;
  // What is not said is the server's choice.
  std::optional<double> temperature, top_p;
  std::optional<int> top_k, max_tokens;
};

Status chat(const ChatOptions& options, InterruptWatcher& interrupts);

}  // namespace octavo
