// The lines of a chat at a terminal: a line that is a command does what the command says, any other is answered. What
// cannot be a question (a line that the terminal cut, bytes that are not UTF-8) is refused in one sentence and the chat
// goes on; so it does after an answer that failed, unless nothing more can be answered (ErrorKind::unavailable).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/console.h"

namespace octavo {

struct ChatCommand {
  std::string words;  // "/clear /new": the first is shown
  std::string help;
  std::function<Status(std::string_view argument)> act;
};

struct ChatLoop {
  std::string greeting;
  std::vector<ChatCommand> commands;  // beside /help and /exit
  std::function<Status(const std::string& question)> answer;
};

// Returns at the end of input, after /exit, or with the error after which nothing can be answered.
Status chat_loop(const ChatLoop& loop, InterruptWatcher& interrupts);

// What a person gave in place of a chat: `prompt`, or all of stdin where that is no terminal. None: it is a chat.
Result<std::optional<std::string>> prompt_or_stdin(std::optional<std::string> prompt);

}  // namespace octavo
