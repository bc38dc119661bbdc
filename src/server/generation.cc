#include "server/generation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "server/event_stream.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

// More than this is not written ahead of a reader; what comes later is joined.
constexpr std::size_t kMaxUnsentBytes = std::size_t{32} << 10;

// A wake-up may be lost for want of memory.
constexpr auto kLookAnyway = std::chrono::seconds(1);

double seconds(Generation::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::optional<int> wider(std::optional<int> a, std::optional<int> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

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

Generation::Generation(Service& service, std::shared_ptr<Exchange> exchange, GenerationSpec spec,
                       Clock::time_point arrival)
    : service_(service),
      exchange_(std::move(exchange)),
      spec_(std::move(spec)),
      arrival_(arrival),
      last_sent_(arrival) {
  for (const PromptSpec& prompt : spec_.prompts) prompt_sizes_.push_back(static_cast<std::int64_t>(prompt.ids.size()));
}

void Generation::start(Service& service, std::shared_ptr<Exchange> exchange, GenerationSpec spec, MakeForm make_form,
                       const char* prompt_field, Clock::time_point arrival) {
  auto self = std::make_shared<Generation>(service, exchange, std::move(spec), arrival);
  GenerationSpec& asked = self->spec_;
  if (asked.id.empty()) asked.id = exchange->request().id;
  const auto created = std::chrono::system_clock::now().time_since_epoch();
  const std::size_t total = static_cast<std::size_t>(asked.continuations());
  const auto refused = self->submit(prompt_field);
  if (refused) {
    self->prompts_.clear();
    if (refused->status == 429 || refused->status == 503) service.metrics.rejected(refused->status);
    return exchange->respond(error_response(*refused));
  }
  service.admission.enter(static_cast<int>(total));
  self->choices_.resize(total);
  for (std::size_t i = 0; i < total; ++i) {
    Choice& choice = self->choices_[i];
    choice.reader = make_plain_reader();
    choice.piece.choice = static_cast<int>(i);
    choice.piece.prompt = static_cast<int>(i) / asked.sampling.n;
  }
  if (!asked.echo && !asked.prompt_logprobs)
    for (PromptSpec& prompt : asked.prompts) prompt.ids = {};  // the engine has them
  self->form_ = make_form({.id = asked.id,
                           .created = std::chrono::duration_cast<std::chrono::seconds>(created).count(),
                           .model = asked.model,
                           .tokenizer = &service.words.tokenizer,
                           .prompts = std::move(asked.prompts),
                           .echo = asked.echo,
                           .logprobs = asked.logprobs,
                           .prompt_logprobs = asked.prompt_logprobs});
  service.generations.emplace(asked.id, self);
  exchange->listen(self);
  for (Prompt& prompt : self->prompts_) prompt.text->on_event(service.wakeups->waker(self));
}

// All prompts, or none.
std::optional<ApiError> Generation::submit(const char* prompt_field) {
  const EngineStats stats = service_.engine.stats();
  if (auto full = service_.admission.refuse(spec_.continuations(), stats.waiting)) return full;
  std::int64_t tokens = 0;
  for (const std::int64_t size : prompt_sizes_) tokens += size;
  if (auto full = service_.admission.refuse_tokens(tokens)) return full;
  for (const PromptSpec& prompt : spec_.prompts) {
    Request request;
    request.id = spec_.id;
    request.prompt = prompt.ids;
    request.sampling = spec_.sampling;
    request.sampling.logprobs = spec_.prompt_only ? std::nullopt : spec_.logprobs;
    request.sampling.prompt_logprobs = wider(spec_.prompt_logprobs, spec_.echo ? spec_.logprobs : std::nullopt);
    request.priority = spec_.priority;
    request.cache_salt = spec_.cache_salt;
    auto stream = service_.engine.submit(std::move(request));
    if (!stream) {
      ApiError error = api_error(stream.error());
      if (error.status == 400) error.param = blamed_field(error.message, prompt_field);
      if (error.status == 429) error.retry_after = service_.admission.retry_after(Clock::now());
      return error;
    }
    prompts_.push_back({std::make_unique<TextStream>(*std::move(stream), service_.words.tokenizer, spec_.sampling,
                                                     spec_.skip_special)});
  }
  service_.admission.queue_tokens(tokens);
  return std::nullopt;
}

void Generation::woken() {
  if (over_ || !exchange_->open()) return;
  if (spec_.stream && exchange_->unsent_bytes() > kMaxUnsentBytes) return;
  if (!collect()) return;
  if (failure_) return fail(*failure_);
  if (spec_.stream) write_news();
  if (num_ended_ == choices_.size()) finish();
}

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
  if (!spec_.prompt_only) choice.piece.delta.append(choice.reader->push(event.text));
  if (event.finish) end_choice(prompt, choice, event);
  choice.called_tools |= !choice.piece.delta.tool_calls.empty();
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
  } else {
    service_.metrics.next_token(seconds(event.when - choice.last_token));
  }
  choice.last_token = event.when;
  if (!wants_tokens() || spec_.prompt_only || !event.logprobs) return;
  choice.piece.tokens.push_back({event.token ? *event.token : *event.stop_token, std::move(*event.logprobs)});
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
  if (!spec_.prompt_only) choice.piece.delta.append(choice.reader->finish());
  choice.piece.finish = reason == FinishReason::length || spec_.prompt_only ? "length" : "stop";
  if ((choice.called_tools || !choice.piece.delta.tool_calls.empty()) && reason == FinishReason::stop)
    choice.piece.finish = "tool_calls";
  const auto& asked = spec_.sampling.stop_token_ids;
  const auto& stop_token = event.tokens.back().stop_token;
  if (!event.stop_reason.empty())
    choice.piece.stop_reason = event.stop_reason;
  else if (stop_token && std::find(asked.begin(), asked.end(), *stop_token) != asked.end())
    choice.piece.stop_reason = *stop_token;
}

void Generation::write_news() {
  std::string events;
  for (Choice& choice : choices_) {
    Piece& piece = choice.piece;
    const bool news = piece.first || !piece.delta.empty() || !piece.finish.empty();
    if (!news) continue;  // tokens whose text is held back wait for it
    const Usage now = usage();
    for (const std::string& chunk : form_->chunks(piece, spec_.continuous_usage ? &now : nullptr))
      append_event(events, chunk);
    piece = Piece{.choice = piece.choice,
                  .prompt = piece.prompt,
                  .first = false,
                  .delta = {},
                  .tokens = {},
                  .finish = {},
                  .stop_reason = {}};
  }
  if (!events.empty()) send(events);
}

void Generation::send(std::string_view events) {
  if (!exchange_->answered()) exchange_->begin_stream(kEventStreamType);
  exchange_->write(events);
  last_sent_ = Clock::now();
}

void Generation::finish() {
  if (spec_.stream) {
    std::string events;
    if (spec_.include_usage) append_event(events, form_->usage_chunk(usage()));
    events += kStreamDone;
    send(events);
  } else {
    std::vector<Piece> pieces;
    for (Choice& choice : choices_) pieces.push_back(std::move(choice.piece));
    exchange_->respond({.status = 200, .body = form_->whole(pieces, usage())});
  }
  const auto exchange = exchange_;
  if (service_.policy.log_requests) {
    const Usage used = usage();
    log::info("answered", {{"id", spec_.id},
                           {"path", exchange->request().path},
                           {"prompt_tokens", used.prompt_tokens},
                           {"cached_tokens", used.cached_tokens},
                           {"tokens", used.completion_tokens},
                           {"seconds", seconds(Clock::now() - arrival_)}});
  }
  let_go(nullptr);
  if (spec_.stream) exchange->finish();
}

// A stream that has begun ends with an error event, so that nobody takes a part of an answer for the whole.
void Generation::fail(const ApiError& error, const char* reason) {
  if (over_) return;
  const auto exchange = exchange_;
  log::warn("request failed", {{"id", spec_.id}, {"status", error.status}, {"why", error.message}});
  if (!exchange->answered()) {
    let_go(reason);
    return exchange->respond(error_response(error));
  }
  std::string events;
  append_event(events, error_json(error));
  events += kStreamDone;
  send(events);
  let_go(reason);
  exchange->finish();
}

void Generation::tick(Clock::time_point now) {
  if (over_) return;
  const auto limit = service_.policy.request_timeout;
  if (limit.count() > 0 && now - arrival_ > limit)
    return stop({.status = 504,
                 .message = "the request took longer than the " + std::to_string(seconds(limit)).substr(0, 6) +
                            " seconds of --request-timeout"},
                "timeout");
  if (now - last_looked_ > kLookAnyway) {
    last_looked_ = now;
    woken();
  }
  if (!spec_.stream || now - last_sent_ < service_.policy.ping_interval) return;
  if (!over_ && exchange_->unsent_bytes() == 0 && now - last_sent_ >= service_.policy.ping_interval) send(kStreamPing);
}

void Generation::client_gone() {
  if (over_) return;
  log::info("client gone",
            {{"id", spec_.id}, {"tokens", usage().completion_tokens}, {"seconds", seconds(Clock::now() - arrival_)}});
  let_go("client_gone");
}

void Generation::let_go(const char* reason) {
  if (std::exchange(over_, true)) return;
  if (reason != nullptr) service_.metrics.aborted(reason);
  const auto now = Clock::now();
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    if (prompts_[i].waits) service_.admission.queue_tokens(-prompt_sizes_[i]);
  for (const Choice& choice : choices_) {
    if (choice.ended) continue;
    service_.metrics.finished({.outcome = Outcome::abort,
                               .prompt_tokens = prompt_sizes_[static_cast<std::size_t>(choice.piece.prompt)],
                               .generated_tokens = choice.num_tokens,
                               .n = spec_.sampling.n,
                               .max_tokens = spec_.sampling.max_tokens,
                               .had_token = false,
                               .end_to_end = seconds(now - arrival_)});
  }
  prompts_.clear();  // cancels
  service_.admission.leave(static_cast<int>(choices_.size()));
  const auto [first, last] = service_.generations.equal_range(spec_.id);
  for (auto it = first; it != last; ++it) {
    if (it->second.lock().get() != this) continue;
    service_.generations.erase(it);
    break;
  }
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
