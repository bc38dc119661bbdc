#include "client/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "client/answer_stream.h"
#include "client/api.h"
#include "terminal/chat_loop.h"
#include "terminal/table.h"

namespace octavo {
namespace {

using Clock = HttpClient::Clock;

// Of the last answer.
struct AnswerFigures {
  double first_seconds = 0;  // to the first of its text
  double last_seconds = 0;
  int pieces = 0;
  std::string finish;
  std::optional<AnswerUsage> usage;

  // Tokens after the first one in their time; pieces stand for tokens that the server does not count.
  double tokens_per_second() const {
    const auto tokens = usage ? usage->completion_tokens : pieces;
    const double seconds = last_seconds - first_seconds;
    return tokens > 1 && seconds > 0 ? static_cast<double>(tokens - 1) / seconds : 0;
  }
};

// Text of others on a terminal: what would steer the terminal is left out.
std::string harmless(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (!c1 && ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t')) result += text[i];
  }
  return result;
}

// What is written of an answer while it comes.
class Page {
 public:
  explicit Page(bool terminal) : terminal_(terminal) {}

  void write(const AnswerPiece& piece) {
    if (terminal_ && !piece.reasoning.empty())
      put((std::exchange(thinking_, true) ? "" : "\x1b[2m") + harmless(piece.reasoning));
    if (piece.content.empty()) return;
    end_thought();
    put(terminal_ ? harmless(piece.content) : piece.content);
  }
  void end() {
    if (std::exchange(thinking_, false)) put("\x1b[0m");
    put("\n");
  }
  const Status& status() const { return status_; }

 private:
  void end_thought() {
    if (std::exchange(thinking_, false)) put("\x1b[0m\n\n");
  }
  void put(const std::string& text) {
    if (status_) status_ = write_stdout(text);
  }

  bool terminal_;
  bool thinking_ = false;
  Status status_;
};

class ChatSession {
 public:
  ChatSession(const ChatOptions& options, HttpClient& client, ServedModel model, InterruptWatcher& interrupts)
      : options_(options),
        client_(client),
        model_(std::move(model)),
        interrupts_(interrupts),
        system_(options.system) {}

  // Whether Ctrl-C ended it. What came of it stays in the conversation; a question without an answer does not.
  Result<bool> answer(const std::string& question);
  Status retry();
  Status set_system(std::string_view text);
  void clear() { messages_ = OrderedJson::array(); }
  Status print_figures() const;

 private:
  std::string request() const;
  void take(const AnswerPiece& piece, Clock::time_point start);

  const ChatOptions& options_;
  HttpClient& client_;
  const ServedModel model_;
  InterruptWatcher& interrupts_;
  std::string system_;
  OrderedJson messages_ = OrderedJson::array();
  std::string last_question_;
  std::string text_;  // of the answer that comes
  AnswerFigures figures_;
};

std::string ChatSession::request() const {
  OrderedJson messages = OrderedJson::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const OrderedJson& message : messages_) messages.push_back(message);
  OrderedJson body = {{"model", model_.id}, {"messages", std::move(messages)}, {"stream", true}};
  body["stream_options"] = {{"include_usage", true}};
  if (options_.temperature) body["temperature"] = *options_.temperature;
  if (options_.top_p) body["top_p"] = *options_.top_p;
  if (options_.top_k) body["top_k"] = *options_.top_k;
  if (options_.max_tokens) body["max_tokens"] = *options_.max_tokens;
  return to_text(body);
}

void ChatSession::take(const AnswerPiece& piece, Clock::time_point start) {
  if (piece.says_something()) {
    figures_.last_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (figures_.pieces++ == 0) figures_.first_seconds = figures_.last_seconds;
  }
  if (!piece.finish.empty()) figures_.finish = piece.finish;
  if (piece.usage) figures_.usage = piece.usage;
  text_ += piece.content;
}

Result<bool> ChatSession::answer(const std::string& question) {
  last_question_ = question;
  messages_.push_back({{"role", "user"}, {"content", question}});
  text_.clear();
  figures_ = {};
  Page page(::isatty(STDOUT_FILENO) == 1);
  Status ended = Error("the call did not end", ErrorKind::internal);
  const Clock::time_point start = Clock::now();
  const auto stream = std::make_shared<AnswerStream>(
      [&](const AnswerPiece& piece) {
        take(piece, start);
        page.write(piece);
        if (!page.status()) client_.cancel();
      },
      [&](const Status& status) { ended = status; });
  client_.call({.method = "POST", .route = "/v1/chat/completions", .body = request()}, stream);
  interrupts_.begin_answer([this] { client_.cancel(); });
  client_.run();
  const bool interrupted = interrupts_.end_answer();
  if (figures_.pieces > 0) page.end();
  OCTAVO_TRY(page.status());
  if (text_.empty())
    messages_.erase(messages_.size() - 1);
  else
    messages_.push_back({{"role", "assistant"}, {"content", text_}});
  // No error of one answer ends the chat: the server may come back.
  if (!ended && !interrupted) return Error(ended.error().message());
  return interrupted;
}

Status ChatSession::retry() {
  if (last_question_.empty()) return Error("there is no question yet to ask again");
  const bool answered = !messages_.empty() && messages_.back().at("role") == "assistant";
  if (answered) messages_.erase(messages_.size() - 1);
  if (answered) messages_.erase(messages_.size() - 1);  // its question
  OCTAVO_TRY(answer(std::string(last_question_)));
  return {};
}

Status ChatSession::set_system(std::string_view text) {
  if (!text.empty()) system_ = std::string(text);
  std::fprintf(stderr, "system message: %s\n", system_.empty() ? "none" : system_.c_str());
  return {};
}

Status ChatSession::print_figures() const {
  if (figures_.pieces == 0) return Error("there is no answer yet to speak of");
  const std::optional<AnswerUsage>& usage = figures_.usage;
  std::string text = "first token after " + fixed(1000 * figures_.first_seconds, 0) + " ms, then " +
                     fixed(figures_.tokens_per_second(), 1) + " tokens/s\n";
  if (usage) {
    text += std::to_string(usage->prompt_tokens) + " tokens of prompt (" + std::to_string(usage->cached_tokens) +
            " from the cache), " + std::to_string(usage->completion_tokens) + " of answer";
    const auto used = usage->prompt_tokens + usage->completion_tokens;
    if (const auto most = model_.max_model_len)
      text += "; context " + std::to_string(used) + " of " + std::to_string(*most) + " (" +
              fixed(100.0 * static_cast<double>(used) / static_cast<double>(std::max<std::int64_t>(1, *most)), 1) +
              " %)";
    text += "\n";
  } else {
    text += "the server counted no tokens: pieces of text stand for them\n";
  }
  if (!figures_.finish.empty()) text += "ended by " + figures_.finish + "; ";
  text += "model " + model_.id + "\n";
  std::fputs(text.c_str(), stderr);
  return {};
}

Status chat_at_terminal(const ChatOptions& options, ChatSession& session, const std::string& model,
                        InterruptWatcher& interrupts) {
  ChatLoop loop;
  loop.greeting = "Chatting with " + model + " at " + options.client.server.origin() +
                  ". Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands.";
  const auto clear = [&](std::string_view) -> Status {
    session.clear();
    return {};
  };
  loop.commands = {{"/stats", "tokens per second, time to first token, context in use",
                    [&](std::string_view) { return session.print_figures(); }},
                   {"/clear /new", "forgets what was said", clear},
                   {"/retry", "asks the last question again", [&](std::string_view) { return session.retry(); }},
                   {"/system", "shows the system message, or sets it: /system TEXT",
                    [&](std::string_view text) { return session.set_system(text); }}};
  loop.answer = [&](const std::string& question) -> Status {
    OCTAVO_TRY(session.answer(question));
    return {};
  };
  return chat_loop(loop, interrupts);
}

}  // namespace

Status chat(const ChatOptions& options, InterruptWatcher& interrupts) {
  OCTAVO_TRY(const std::optional<std::string> prompt, prompt_or_stdin(options.prompt));
  OCTAVO_TRY(const std::unique_ptr<HttpClient> client, HttpClient::create(options.client));
  OCTAVO_TRY(const ServedModel model, choose_model(*client, options.model));
  ChatSession session(options, *client, model, interrupts);
  if (!prompt) return chat_at_terminal(options, session, model.id, interrupts);
  OCTAVO_TRY(const bool interrupted, session.answer(*prompt));
  if (interrupted) return Error("interrupted: the answer above is not complete");
  return {};
}

}  // namespace octavo
