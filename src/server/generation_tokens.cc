#include <algorithm>
#include <utility>

#include "server/generation.h"

namespace octavo {
namespace {

Outcome outcome_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return Outcome::stop;
    case FinishReason::length:
      return Outcome::length;
    case FinishReason::cancelled:
      return Outcome::abort;
    case FinishReason::failed:
      break;
  }
  return Outcome::error;
}

}  // namespace

// Takes all events that are there. False: there were none.
bool Generation::collect() {
  bool any = false;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    bool pending = false;
    while (auto event = prompts_[i].text->poll(pending)) {
      any = true;
      take(i, *event);
    }
  }
  return any;
}

void Generation::take(std::size_t prompt, TextEvent& event) {
  Choice& choice =
      choices_[prompt * static_cast<std::size_t>(spec_.sampling.n) + static_cast<std::size_t>(event.index)];
  if (choice.ended) return;
  for (TokenEvent& token : event.tokens) {
    if (!choice.begun) begin_choice(prompt, choice, token);
    if (token.token || token.stop_token) take_token(choice, token);
  }
  if (!spec_.prompt_only) read_text(prompt, choice, event);
  if (event.finish) end_choice(prompt, choice, event);
  choice.called_tools |= !choice.piece.delta.tool_calls.empty();
  choice.broken_call |= choice.piece.delta.broken_call();
}

// The reader may end the answer before the model does.
void Generation::read_text(std::size_t prompt, Choice& choice, TextEvent& event) {
  choice.reader->look_for_stops(choice.num_tokens > spec_.sampling.min_tokens);
  choice.piece.delta.append(choice.reader->push(event.text));
  if (event.finish == FinishReason::stop || event.finish == FinishReason::length)
    choice.piece.delta.append(choice.reader->finish());
  const auto end = choice.reader->end();
  if (!end) return;
  if (!event.finish) prompts_[prompt].text->end(event.index);
  event.finish = FinishReason::stop;
  event.stop_reason = end->stop;
}

void Generation::begin_choice(std::size_t prompt, Choice& choice, TokenEvent& event) {
  choice.begun = choice.piece.first = true;
  choice.queued = event.queue_seconds;
  if (event.index == 0) {
    cached_tokens_ += event.cached_tokens;
    if (!event.prompt_logprobs.empty())
      form_->set_prompt_rows(static_cast<int>(prompt), std::move(event.prompt_logprobs));
  }
  if (prompts_[prompt].waits) {
    prompts_[prompt].waits = false;
    service_.admission.queue_tokens(-prompt_sizes_[prompt]);
  }
}

void Generation::take_token(Choice& choice, TokenEvent& event) {
  if (choice.num_tokens++ == 0) {
    choice.first_token = event.when;
    service_.metrics.first_token(seconds(event.when - arrival_));
    service_.recent.first_token(seconds(event.when - arrival_));
  } else {
    service_.metrics.next_token(seconds(event.when - choice.last_token));
    service_.recent.next_token(seconds(event.when - choice.last_token));
  }
  choice.last_token = event.when;
  if (!wants_tokens() || spec_.prompt_only || (spec_.logprobs && !event.logprobs)) return;
  choice.piece.tokens.push_back(
      {event.token ? *event.token : *event.stop_token, std::move(event.logprobs).value_or(TokenLogprobs())});
}

void Generation::end_choice(std::size_t prompt, Choice& choice, const TextEvent& event) {
  choice.ended = true;
  ++num_ended_;
  const FinishReason reason = *event.finish;
  const auto now = Clock::now();
  const bool had_token = choice.num_tokens > 0;
  service_.admission.finished(now);
  service_.metrics.finished(
      {.outcome = outcome_of(reason),
       .prompt_tokens = prompt_sizes_[prompt],
       .generated_tokens = choice.num_tokens,
       .n = spec_.sampling.n,
       .max_tokens = spec_.sampling.max_tokens,
       .had_token = had_token,
       .end_to_end = seconds((had_token ? choice.last_token : now) - arrival_),
       .queued = choice.queued,
       .prefill = std::max(0.0, had_token ? seconds(choice.first_token - arrival_) - choice.queued : 0.0),
       .decode = had_token ? seconds(choice.last_token - choice.first_token) : 0.0});
  if (reason == FinishReason::failed) {
    const bool dead = !service_.engine.alive();
    failure_ = ApiError{.status = dead ? 503 : 500, .message = event.failure, .retry_after = dead ? 5 : 0};
    return;
  }
  if (reason == FinishReason::cancelled) {
    failure_ = ApiError{.status = 503, .message = "the request was cancelled: the server is shutting down"};
    return;
  }
  choice.piece.finish = reason == FinishReason::length || spec_.prompt_only ? "length" : "stop";
  const bool broken = choice.broken_call || choice.piece.delta.broken_call();
  const bool called = (choice.called_tools || !choice.piece.delta.tool_calls.empty()) && !broken;
  // As in vLLM also where max_tokens ends behind a whole call; but not where it cuts what came after that.
  if (called && (reason == FinishReason::stop || choice.reader->ends_with_call())) choice.piece.finish = "tool_calls";
  const auto& asked = spec_.sampling.stop_token_ids;
  const auto& stop_token = event.tokens.back().stop_token;
  if (!event.stop_reason.empty())
    choice.piece.stop_reason = event.stop_reason;
  else if (stop_token && std::find(asked.begin(), asked.end(), *stop_token) != asked.end())
    choice.piece.stop_reason = *stop_token;
}

Usage Generation::usage() const {
  Usage usage;
  for (const std::int64_t size : prompt_sizes_) usage.prompt_tokens += size;
  if (!spec_.prompt_only)
    for (const Choice& choice : choices_) usage.completion_tokens += choice.num_tokens;
  usage.cached_tokens = cached_tokens_;
  return usage;
}

}  // namespace octavo
