#include "tool/run.h"

#include <chrono>

#include "base/log.h"
#include "engine/text_assets.h"
#include "engine/text_stream.h"
#include "terminal/chat_loop.h"

namespace octavo {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  return "";
}

// A conversation with one engine: messages so far, and how they become tokens.
class Conversation {
 public:
  Conversation(const RunOptions& options, Engine& engine, const Tokenizer& tokenizer, const TemplateAsset* asset)
      : options_(options), engine_(engine), tokenizer_(tokenizer), template_(asset) {
    clear();
  }

  void clear() {
    messages_ = OrderedJson::array();
    if (!options_.system.empty()) add("system", options_.system);
  }

  // Streams the answer to stdout. An interrupted answer stays in the conversation as far as it came.
  Result<bool> answer(const std::string& text, InterruptWatcher& interrupts) {
    add("user", text);
    const Clock::time_point start = Clock::now();
    std::size_t prompt_tokens = 0;
    Result<std::unique_ptr<TokenStream>> tokens = submit(text, prompt_tokens);
    if (!tokens) {
      messages_.erase(messages_.size() - 1);  // what was refused does not burden the next question
      return tokens.error();
    }
    TextStream stream(std::move(*tokens), tokenizer_, options_.sampling);

    interrupts.begin_answer([&stream] { stream.cancel(); });
    const Result<std::string> answered = print(stream, prompt_tokens, start);
    const bool interrupted = interrupts.end_answer();
    if (!answered) return answered.error();
    add("assistant", *answered);
    return interrupted;
  }

 private:
  void add(const char* role, const std::string& content) {
    messages_.push_back(OrderedJson{{"role", role}, {"content", content}});
  }

  Result<std::unique_ptr<TokenStream>> submit(const std::string& text, std::size_t& prompt_tokens) {
    Request request;
    OCTAVO_TRY(request.prompt, encode(text));
    request.sampling = options_.sampling;
    prompt_tokens = request.prompt.size();
    return engine_.submit(std::move(request));
  }

  // The whole conversation through the template; without one, the text alone is continued.
  Result<std::vector<std::int32_t>> encode(const std::string& text) const {
    if (template_ == nullptr) return tokenizer_.encode(text, {.add_special = true});
    OrderedJson variables = template_->special;
    variables["messages"] = messages_;
    variables["add_generation_prompt"] = true;
    OCTAVO_TRY(const std::string rendered, template_->chat_template.render(variables));
    return tokenizer_.encode(rendered);
  }

  Result<std::string> print(TextStream& stream, std::size_t prompt_tokens, Clock::time_point start) {
    std::string text;
    std::size_t num_tokens = 0;
    double first = 0;
    int cached = 0;
    FinishReason finish = FinishReason::cancelled;
    while (const auto event = stream.next()) {
      if (event->finish == FinishReason::failed) return Error(event->failure, ErrorKind::unavailable);
      for (const TokenEvent& token : event->tokens) {
        if (num_tokens == 0) {
          first = seconds_since(start);
          cached = token.cached_tokens;
        }
        if (token.token) ++num_tokens;
      }
      if (event->finish) finish = *event->finish;
      text += event->text;
      OCTAVO_TRY(write_stdout(event->text));
    }
    OCTAVO_TRY(write_stdout("\n"));
    const double decoding = seconds_since(start) - first;
    log::info("answered", {{"prompt_tokens", prompt_tokens},
                           {"cached_tokens", cached},
                           {"tokens", num_tokens},
                           {"finish", name_of(finish)},
                           {"first_token_seconds", first},
                           {"tokens_per_second", num_tokens > 1 ? static_cast<double>(num_tokens - 1) / decoding : 0.0},
                           {"kv_cache_bytes", static_cast<std::int64_t>(prompt_tokens + num_tokens) *
                                                  engine_.facts().kv_bytes_per_token}});
    return text;
  }

  const RunOptions& options_;
  Engine& engine_;
  const Tokenizer& tokenizer_;
  const TemplateAsset* template_;
  OrderedJson messages_ = OrderedJson::array();
};

Status chat(Conversation& conversation, InterruptWatcher& interrupts) {
  const auto clear = [&](std::string_view) -> Status {
    conversation.clear();
    return {};
  };
  // A question that cannot be answered (too long, say) does not end the conversation.
  const auto answer = [&](const std::string& question) -> Status {
    OCTAVO_TRY(conversation.answer(question, interrupts));
    return {};
  };
  return chat_loop({.greeting = "Ask something. Ctrl-C stops an answer, Ctrl-D leaves, /clear forgets what was said.",
                    .commands = {{"/clear /new", "forgets what was said", clear}},
                    .answer = answer},
                   interrupts);
}

}  // namespace

Status run(const RunOptions& options, const BackendFactory& make_backend, InterruptWatcher& interrupts) {
  OCTAVO_TRY(const std::optional<std::string> prompt, prompt_or_stdin(options.prompt));
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(options.engine.model_path));
  OCTAVO_TRY(const Tokenizer tokenizer, load_tokenizer(checkpoint));
  std::optional<TemplateAsset> asset;
  Result<TemplateAsset> loaded = load_chat_template(checkpoint, options.chat_template);
  if (loaded) {
    asset = std::move(*loaded);
  } else if (loaded.error().kind() == ErrorKind::not_found && options.chat_template.empty() && options.system.empty()) {
    log::info("no chat template", {{"effect", "the prompt is continued as plain text"}});
  } else {
    return loaded.error();
  }

  OCTAVO_TRY(const std::unique_ptr<Engine> engine, Engine::create(options.engine, make_backend));
  Conversation conversation(options, *engine, tokenizer, asset ? &*asset : nullptr);
  if (!prompt) return chat(conversation, interrupts);
  OCTAVO_TRY(const bool interrupted, conversation.answer(*prompt, interrupts));
  if (interrupted) return Error("interrupted: the answer above is not complete");
  return {};
}

}  // namespace octavo
