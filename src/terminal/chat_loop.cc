#include "terminal/chat_loop.h"

#include <algorithm>
#include <cstdio>

#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::size_t kTerminalLine = 4095;  // the kernel cuts a line there

void say(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

std::string first_word(std::string_view line) {
  const auto words = split(line, " \t");
  return words.empty() ? std::string() : std::string(words.front());
}

// "/clear", and no path or fraction: a slash and letters.
bool looks_like_command(std::string_view word) {
  return word.size() > 1 && word[0] == '/' &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string help_text(const ChatLoop& loop) {
  std::string text;
  const auto line = [&](const std::string& word, const std::string& help) {
    text += "  " + word + std::string(word.size() < 10 ? 10 - word.size() : 1, ' ') + help + "\n";
  };
  for (const ChatCommand& command : loop.commands) line(first_word(command.words), command.help);
  line("/help", "this list");
  line("/exit", "leaves, as Ctrl-D does");
  return text + "  Ctrl-C    stops an answer";
}

enum class Next { ask, leave };

Result<Next> do_command(const ChatLoop& loop, std::string_view line) {
  const std::string word = first_word(line);
  if (word == "/exit" || word == "/quit") return Next::leave;
  if (word == "/help") {
    say(help_text(loop));
    return Next::ask;
  }
  for (const ChatCommand& command : loop.commands) {
    const auto words = split(command.words, " ");
    if (std::find(words.begin(), words.end(), word) == words.end()) continue;
    OCTAVO_TRY(command.act(trim(line.substr(line.find(word) + word.size()))));
    return Next::ask;
  }
  return Error("there is no command " + word + "; /help lists them");
}

Result<Next> do_line(const ChatLoop& loop, const std::string& line) {
  if (line.size() >= kTerminalLine)
    return Error("A terminal hands over at most 4,095 bytes a line: give longer text with -p or on stdin.");
  if (find_invalid_utf8(line) != std::string::npos) return Error("That line is not valid UTF-8.");
  if (trim(line).empty()) return Next::ask;
  if (looks_like_command(first_word(line))) return do_command(loop, line);
  OCTAVO_TRY(loop.answer(line));
  return Next::ask;
}

}  // namespace

Status chat_loop(const ChatLoop& loop, InterruptWatcher& interrupts) {
  say(loop.greeting);
  interrupts.set_chatting(true);
  for (std::string line;;) {
    std::fputs("> ", stderr);
    OCTAVO_TRY(const bool more, read_stdin_line(line));
    if (!more) break;
    const Result<Next> next = do_line(loop, line);
    if (!next && next.error().kind() == ErrorKind::unavailable) return next.error();
    if (!next) say(next.error().message());
    if (next && *next == Next::leave) return {};
  }
  say("");
  return {};
}

Result<std::optional<std::string>> prompt_or_stdin(std::optional<std::string> prompt) {
  if (prompt && find_invalid_utf8(*prompt) != std::string::npos) return Error("the prompt is not valid UTF-8");
  if (!prompt && !stdin_is_terminal()) {
    OCTAVO_TRY(prompt, read_stdin_text());
    if (trim(*prompt).empty()) return Error("there is no prompt: give one with -p or on stdin");
  }
  return prompt;
}

}  // namespace octavo
