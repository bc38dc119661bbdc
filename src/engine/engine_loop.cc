#include "engine/engine_loop.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace octavo {
namespace {

// How often the cache's counters are fetched from the device while work goes on.
constexpr auto kCounterInterval = std::chrono::milliseconds(200);

std::vector<PoolSpec> pools_of(const StoreSpec& spec) {
  std::vector<PoolSpec> pools;
  for (std::size_t g = 0; g < spec.groups.size(); ++g)
    pools.push_back({spec.groups[g].lifetime, spec.groups[g].window, spec.num_pages[g]});
  return pools;
}

}  // namespace

EngineLoop::EngineLoop(const KvStore& store, Runner& runner, Inbox& inbox, const SchedulerLimits& limits, int vocab,
                       int num_layers)
    : store_(store),
      runner_(runner),
      inbox_(inbox),
      vocab_(vocab),
      ledger_(store.spec().page_size, pools_of(store.spec()), limits.prefix_caching),
      scheduler_(limits, ledger_, store.spec().groups) {
  current_.layers.resize(static_cast<std::size_t>(num_layers));
  publish();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  inbox_.close("");
  thread_.join();
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return published_;
}

void EngineLoop::run() {
  std::string failure;
  std::vector<InboxItem> items;
  while (inbox_.take(items, scheduler_.idle())) {
    try {
      receive(items);
      if (const Status done = step(); !done) failure = done.error().message();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (failure.empty()) continue;
    failure = "the engine has stopped because a step failed (" + failure + "); it must be started again";
    log::error("engine stopped", {{"why", failure}});
    inbox_.close(failure);
  }
  end_all(items, failure);
}

void EngineLoop::receive(std::vector<InboxItem>& items) {
  for (InboxItem& item : std::exchange(items, {})) {
    if (item.forget_prefixes) ledger_.reset_prefix_cache();
    if (item.needs_rows > runner_.max_rows()) {
      if (const Status grown = runner_.ensure_rows(item.needs_rows); !grown) {
        for (const auto& sequence : item.sequences) end(sequence, FinishReason::failed, grown.error().message());
        continue;
      }
      scheduler_.set_max_rows(runner_.max_rows());
    }
    for (const auto& sequence : item.sequences) scheduler_.add(sequence);
  }
}

Status EngineLoop::step() {
  for (const auto& sequence : scheduler_.take_cancelled()) end(sequence, FinishReason::cancelled, "");
  const StepPlan plan = scheduler_.plan();
  inbox_.set_waiting(scheduler_.num_waiting());
  if (!outbox_.empty() || plan.empty()) flush();
  if (plan.empty()) return {};
  OCTAVO_TRY(const StepResult result, runner_.run(plan));
  commit(plan, result);
  return {};
}

void EngineLoop::commit(const StepPlan& plan, const StepResult& result) {
  ++current_.steps;
  scheduler_.advance(plan);
  keep_prompt_rows(plan, result);
  for (std::size_t row = 0; row < plan.num_sampled(); ++row) {
    const auto& sequence = plan.sequences[plan.rows[row].entry].sequence;
    try {
      accept_token(plan, result, row);
    } catch (const std::bad_alloc&) {
      scheduler_.finish(sequence);
      end(sequence, FinishReason::failed, "out of memory");
    }
  }
  for (const PlannedSequence& entry : plan.sequences) {
    if (!entry.sequence->job || entry.sequence->remaining() > 0) continue;
    scheduler_.finish(entry.sequence);
    outbox_.push_back({entry.sequence, {}});
  }
  flush();
}

// The extra rows of prompt tokens; logits have been written where they belong already.
void EngineLoop::keep_prompt_rows(const StepPlan& plan, const StepResult& result) {
  for (std::size_t row = plan.num_sampled(); row < plan.rows.size(); ++row) {
    const PlannedRow& planned = plan.rows[row];
    if (planned.next_id < 0) continue;
    const auto& sequence = plan.sequences[planned.entry].sequence;
    sequence->prompt_rows[static_cast<std::size_t>(planned.position) + 1] = result.logprobs[row];
  }
  for (const PlannedSequence& entry : plan.sequences) {
    const int done = std::min(entry.context(), entry.sequence->extra_rows_end());
    entry.sequence->rows_done = std::max(entry.sequence->rows_done, done);
  }
}

void EngineLoop::accept_token(const StepPlan& plan, const StepResult& result, std::size_t row) {
  const auto& sequence = plan.sequences[plan.rows[row].entry].sequence;
  const std::int32_t token = result.tokens[row];
  if (token < 0 || token >= vocab_) {
    scheduler_.finish(sequence);
    end(sequence, FinishReason::failed, "no token could be drawn: the model's output is not finite");
    return;
  }
  std::optional<TokenLogprobs> logprobs;
  if (sequence->logprobs) logprobs = result.logprobs[row];
  TokenEvent event = sequence->accept(token, std::move(logprobs));
  ++current_.generated_tokens;
  if (event.finish) scheduler_.finish(sequence);
  outbox_.push_back({sequence, std::move(event)});
}

// Ends a sequence that the scheduler holds no longer.
void EngineLoop::end(const std::shared_ptr<Sequence>& sequence, FinishReason reason, const std::string& failure) {
  outbox_.push_back({sequence, sequence->end_event(reason, failure)});
}

void EngineLoop::end_all(std::vector<InboxItem>& leftover, const std::string& failure) {
  const FinishReason reason = failure.empty() ? FinishReason::cancelled : FinishReason::failed;
  for (const auto& sequence : scheduler_.take_all()) end(sequence, reason, failure);
  for (const InboxItem& item : leftover)
    for (const auto& sequence : item.sequences) end(sequence, reason, failure);
  flush();
}

void EngineLoop::publish() {
  const auto now = std::chrono::steady_clock::now();
  if (scheduler_.idle() || now - counters_read_ > kCounterInterval) {
    for (std::size_t layer = 0; layer < current_.layers.size(); ++layer)
      if (store_.group_of(static_cast<int>(layer)) >= 0)
        current_.layers[layer].counters = store_.counters(static_cast<int>(layer));
    counters_read_ = now;
  }
  const PoolUse use = ledger_.use(0);
  current_.running = scheduler_.num_running();
  current_.pages_total = use.total;
  current_.pages_held = use.held;
  current_.pages_cached = use.cached;
  current_.pages_free = use.free;
  current_.prompt_tokens = scheduler_.counts().prompt_tokens;
  current_.cached_prompt_tokens = scheduler_.counts().cached_prompt_tokens;
  current_.preemptions = scheduler_.counts().preemptions;
  const std::lock_guard lock(stats_mutex_);
  published_ = current_;
}

void EngineLoop::flush() {
  inbox_.set_waiting(scheduler_.num_waiting());
  publish();
  for (Delivery& delivery : outbox_) {
    Sequence& sequence = *delivery.sequence;
    if (!sequence.job) {
      sequence.queue->push(std::move(delivery.event));
      continue;
    }
    const auto& finish = delivery.event.finish;
    const std::string why = delivery.event.failure.empty() ? "the engine is shutting down" : delivery.event.failure;
    sequence.job->finish(finish ? Status(Error(why, ErrorKind::unavailable)) : Status());
  }
  outbox_.clear();
}

}  // namespace octavo
