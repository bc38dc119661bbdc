#include "server/generation.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "server/event_stream.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

// More than this is not written ahead of a reader; what comes later is joined.
constexpr std::size_t kMaxUnsentBytes = std::size_t{8} << 10;

// A wake-up may be lost for want of memory.
constexpr auto kLookAnyway = std::chrono::seconds(1);

std::optional<int> wider(std::optional<int> a, std::optional<int> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
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
  // The header goes before the field, as in vLLM; the answer's header says which id it has become.
  HttpRequest& request = exchange->request();
  if (!request.named && !asked.id.empty()) request.id = asked.id;
  asked.id = request.id;
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
    choice.reader = asked.answer.plain()
                        ? make_plain_reader()
                        : make_answer_reader(asked.answer, asked.sampling.stop, asked.sampling.include_stop);
    choice.piece.choice = static_cast<int>(i);
    choice.piece.prompt = static_cast<int>(i) / asked.sampling.n;
  }
  if (!asked.echo && !asked.prompt_logprobs && !asked.return_token_ids)
    for (PromptSpec& prompt : asked.prompts) prompt.ids = {};  // the engine has them
  self->form_ = make_form({.id = asked.id,
                           .created = std::chrono::duration_cast<std::chrono::seconds>(created).count(),
                           .model = asked.model,
                           .tokenizer = &service.words.tokenizer,
                           .prompts = std::move(asked.prompts),
                           .echo = asked.echo,
                           .logprobs = asked.logprobs,
                           .prompt_logprobs = asked.prompt_logprobs,
                           .token_ids = asked.return_token_ids,
                           .tokens_as_ids = asked.tokens_as_ids});
  service.generations.emplace(asked.id, self);
  exchange->listen(self);
  for (Prompt& prompt : self->prompts_) prompt.text->on_event(service.wakeups->waker(self));
}

// Whose part of the work the request takes: the key's, or the user's that it names. Neither is kept as it is.
std::string Generation::caller() const {
  const bool by_key = service_.access.guarded();
  const std::string_view name = by_key ? exchange_->request().header("authorization") : std::string_view(spec_.user);
  return std::to_string(std::hash<std::string_view>()(name));
}

std::optional<ApiError> Generation::refuse(std::int64_t prompt_tokens) const {
  const int longest = service_.words.max_model_len;
  for (const std::int64_t size : prompt_sizes_)
    if (service_.policy.strict_max_tokens && size < longest && size + spec_.sampling.max_tokens > longest)
      return ApiError{.message = "This model's maximum context length is " + std::to_string(longest) +
                                 " tokens, but the prompt has " + std::to_string(size) + " tokens and max_tokens is " +
                                 std::to_string(spec_.sampling.max_tokens) + ".",
                      .param = "max_tokens"};
  auto full = service_.admission.refuse(spec_.continuations(), service_.engine.stats().waiting);
  if (full && full->status == 400 && spec_.sampling.n == 1) full->param = "prompt";  // there are so many of them
  if (full) return full;
  return service_.admission.refuse_tokens(prompt_tokens);
}

// All prompts, or none.
std::optional<ApiError> Generation::submit(const char* prompt_field) {
  std::int64_t tokens = 0;
  for (const std::int64_t size : prompt_sizes_) tokens += size;
  if (auto refused = refuse(tokens)) return refused;
  for (const PromptSpec& prompt : spec_.prompts) {
    Request request;
    request.id = spec_.id;
    request.prompt = prompt.ids;
    request.sampling = spec_.sampling;
    request.sampling.logprobs = spec_.prompt_only ? std::nullopt : spec_.logprobs;
    request.sampling.prompt_logprobs = wider(spec_.prompt_logprobs, spec_.echo ? spec_.logprobs : std::nullopt);
    request.priority = spec_.priority;
    request.caller = caller();
    request.cache_salt = spec_.cache_salt;
    auto stream = service_.engine.submit(std::move(request));
    if (!stream) {
      ApiError error = api_error(stream.error());
      if (error.status == 400) error.param = blamed_field(error.message, prompt_field);
      if (spec_.prompts.size() > 1 && error.param == prompt_field)
        error.message = error.param + "[" + std::to_string(prompts_.size()) + "]: " + error.message;
      if (error.status == 429) error.retry_after = service_.admission.retry_after(Clock::now());
      return error;
    }
    SamplingParams of_text = spec_.sampling;
    if (!spec_.answer.plain()) of_text.stop.clear();  // the reader of the answer looks for them
    prompts_.push_back(
        {std::make_unique<TextStream>(*std::move(stream), service_.words.tokenizer, of_text, spec_.skip_special)});
  }
  service_.admission.queue_tokens(tokens);
  return std::nullopt;
}

// What goes wrong here (memory, say) is this request's error and nobody else's.
void Generation::woken() {
  const auto self = shared_from_this();
  try {
    look();
  } catch (const std::exception& failure) {
    log::error("request failed", {{"id", spec_.id}, {"why", failure.what()}});
    const auto exchange = exchange_;
    let_go("error");
    if (exchange->answered())
      exchange->abort();
    else
      exchange->respond(error_response({.status = 500, .message = "the server failed on this request"}));
  }
}

void Generation::look() {
  if (over_ || !exchange_->open()) return;
  if (spec_.stream && exchange_->unsent_bytes() > kMaxUnsentBytes) return;
  if (!collect()) return;
  if (failure_) return fail(*failure_);
  if (spec_.stream) write_news();
  if (num_ended_ == choices_.size()) finish();
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
                 .message = "the request took longer than --request-timeout, which is " +
                            to_text(Json(seconds(limit))) + " seconds"},
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

}  // namespace octavo
