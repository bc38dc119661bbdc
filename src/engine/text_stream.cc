#include "engine/text_stream.h"

#include <utility>

#include "base/check.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace octavo {
namespace {

// One of the n continuations.
struct Continuation {
  StreamDecoder decoder;
  StopStrings stops;
  int num_tokens = 0;
  bool ended = false;
};

Continuation make_continuation(const Tokenizer& tokenizer, const SamplingParams& sampling, bool skip_special) {
  auto stops = StopStrings::create(sampling.stop, sampling.include_stop);
  check(stops.has_value(), "stop strings were checked when the request was submitted");
  return {StreamDecoder(tokenizer, {.skip_special = skip_special}), *std::move(stops)};
}

}  // namespace

struct TextStream::State {
  std::unique_ptr<TokenStream> tokens;
  std::vector<std::string> stop;
  int min_tokens = 0;
  std::vector<Continuation> continuations;

  TextEvent read(TokenEvent token_event, Continuation& continuation);
};

// Stop strings are looked for from the first text after min_tokens on: what came before cannot end the answer.
TextEvent TextStream::State::read(TokenEvent token_event, Continuation& continuation) {
  TextEvent event;
  event.index = token_event.index;
  event.finish = token_event.finish;
  event.failure = token_event.failure;
  std::string text;
  if (token_event.token) {
    ++continuation.num_tokens;
    text = continuation.decoder.push(*token_event.token);
  }
  const bool may_stop = continuation.num_tokens > min_tokens;
  event.text = may_stop ? continuation.stops.push(text) : std::move(text);
  if (token_event.finish && !continuation.stops.match()) {
    const std::string rest = continuation.decoder.finish();
    event.text += may_stop ? continuation.stops.push(rest) : rest;
    event.text += continuation.stops.finish();
  }
  if (const auto& match = continuation.stops.match()) {
    event.finish = FinishReason::stop;
    event.stop_reason = stop[static_cast<std::size_t>(match->index)];
    if (!token_event.finish) tokens->cancel_index(token_event.index);
  }
  continuation.ended = event.finish.has_value();
  event.tokens.push_back(std::move(token_event));
  return event;
}

TextStream::TextStream(std::unique_ptr<TokenStream> tokens, const Tokenizer& tokenizer, const SamplingParams& sampling,
                       bool skip_special)
    : state_(std::make_unique<State>()) {
  state_->tokens = std::move(tokens);
  state_->stop = sampling.stop;
  state_->min_tokens = sampling.min_tokens;
  for (int i = 0; i < sampling.n; ++i)
    state_->continuations.push_back(make_continuation(tokenizer, sampling, skip_special));
}

TextStream::~TextStream() = default;

std::optional<TextEvent> TextStream::next() {
  while (auto token_event = state_->tokens->next()) {
    Continuation& continuation = state_->continuations.at(static_cast<std::size_t>(token_event->index));
    if (continuation.ended) continue;  // what the engine still did before it saw the cancellation
    return state_->read(std::move(*token_event), continuation);
  }
  return std::nullopt;
}

std::optional<TextEvent> TextStream::poll(bool& pending) {
  while (auto token_event = state_->tokens->next_for(std::chrono::milliseconds(0), pending)) {
    Continuation& continuation = state_->continuations.at(static_cast<std::size_t>(token_event->index));
    if (!continuation.ended) return state_->read(std::move(*token_event), continuation);
  }
  return std::nullopt;
}

void TextStream::on_event(std::function<void()> wake) { state_->tokens->on_event(std::move(wake)); }

void TextStream::end(int index) {
  state_->continuations.at(static_cast<std::size_t>(index)).ended = true;
  state_->tokens->cancel_index(index);
}

void TextStream::cancel() { state_->tokens->cancel(); }

}  // namespace octavo
