#include "engine/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace octavo {
namespace {

// How often the cache's counters are fetched from the device while work goes on.
constexpr auto kCounterInterval = std::chrono::milliseconds(200);

// Seconds of steps after which a prompt's tokens count half in the recent speed.
constexpr double kPrefillHalfLife = 5;

constexpr const char* kNoMemory = "out of memory";  // short: no memory is needed to say it

template <class Work>
bool finds_memory(const Work& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void add_counters(KvCounters& sum, const KvCounters& more) {
  sum.saturated += more.saturated;
  sum.written += more.written;
  sum.key_amax = std::max(sum.key_amax, more.key_amax);
  sum.value_amax = std::max(sum.value_amax, more.value_amax);
}

std::vector<PoolSpec> pools_of(const StoreSpec& spec) {
  std::vector<PoolSpec> pools;
  for (std::size_t g = 0; g < spec.groups.size(); ++g)
    pools.push_back({spec.groups[g].lifetime, spec.groups[g].window, spec.num_pages[g]});
  return pools;
}

}  // namespace

EngineLoop::EngineLoop(const std::vector<std::unique_ptr<KvStore>>& stores, Runners& runners, Inbox& inbox,
                       const SchedulerLimits& limits, int vocab, int num_layers, bool overlaps)
    : stores_(stores),
      cache_(stores.front()->spec()),
      runners_(runners),
      inbox_(inbox),
      vocab_(vocab),
      ledger_(cache_.page_size, pools_of(cache_), limits.prefix_caching),
      scheduler_(limits, ledger_, cache_.groups),
      overlaps_(overlaps) {
  current_.layers.resize(static_cast<std::size_t>(num_layers));
  outbox_.reserve(static_cast<std::size_t>(limits.max_seqs) + 64);  // a failure needs a place in it
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
  for (bool idle = true; inbox_.take(items, idle); idle = scheduler_.idle() && !flight_) {
    if (idle) step_began_ = std::chrono::steady_clock::now();
    try {
      host_.start();
      Status done = receive(items);
      if (done) done = step();
      host_.stop();
      if (!done) failure = done.error().message();
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

Status EngineLoop::receive(std::vector<InboxItem>& items) {
  for (InboxItem& item : std::exchange(items, {})) {
    if (item.forget_prefixes) ledger_.reset_prefix_cache();
    if (item.needs_rows > runners_.max_rows()) {
      OCTAVO_TRY(land());
      if (const Status grown = runners_.ensure_rows(item.needs_rows); !grown) {
        for (const auto& sequence : item.sequences) end(sequence, FinishReason::failed, grown.error().message());
        continue;
      }
      scheduler_.set_max_rows(runners_.max_rows());
    }
    for (const auto& sequence : item.sequences)
      if (!finds_memory([&] { scheduler_.add(sequence); })) end(sequence, FinishReason::failed, kNoMemory);
  }
  return {};
}

Status EngineLoop::step() {
  for (const auto& sequence : scheduler_.take_cancelled()) end(sequence, FinishReason::cancelled, "");
  if (scheduler_.needs_tokens()) OCTAVO_TRY(land());
  StepPlan plan;
  if (!finds_memory([&] { plan = scheduler_.plan(); })) return give_one_up();
  inbox_.set_waiting(scheduler_.num_waiting());
  if (plan.empty()) OCTAVO_TRY(land());
  if (!outbox_.empty() || plan.empty()) flush();
  if (plan.empty()) return {};
  return launch(std::move(plan));
}

// Before the new step is under way: the others' tokens and pages are as they were.
Status EngineLoop::give_one_up() {
  OCTAVO_TRY(land());
  const auto sequence = scheduler_.blamed();
  if (!sequence) return Error(kNoMemory, ErrorKind::exhausted);
  scheduler_.finish(sequence);
  end(sequence, FinishReason::failed, kNoMemory);
  flush();
  return {};
}

Status EngineLoop::launch(StepPlan plan) {
  std::optional<Result<LaunchedStep>> launched;
  if (!overlaps_) host_.stop();
  const bool found = finds_memory([&] { launched.emplace(runners_.launch(plan)); });
  if (!overlaps_) host_.start();
  if (!found) {
    const Status given_up = give_one_up();
    scheduler_.abandon(plan);
    return given_up;
  }
  if (!*launched) return launched->error();
  scheduler_.advance(plan);
  CounterDownloads counters;
  if (std::chrono::steady_clock::now() - counters_read_ > kCounterInterval) counters = begin_counters();
  OCTAVO_TRY(land());  // the step before, while the device works on this one
  flight_ = Flight{std::move(plan), **std::move(launched), std::move(counters)};
  return overlaps_ ? Status() : land();
}

Status EngineLoop::land() {
  if (!flight_) return {};
  Flight flight = *std::exchange(flight_, std::nullopt);
  host_.stop();
  auto result = runners_.collect(flight.plan, std::move(flight.step));
  host_.start();
  if (!result) return result.error();
  if (!flight.counters.empty()) finds_memory([&] { read_counters(flight.counters); });
  commit(flight.plan, *result);
  return {};
}

void EngineLoop::commit(const StepPlan& plan, StepResult& result) {
  ++current_.steps;
  measure_step(plan);
  scheduler_.settle(plan);
  keep_prompt_rows(plan, result);
  for (std::size_t row = 0; row < plan.num_sampled(); ++row) {
    const auto& sequence = plan.sequences[plan.rows[row].entry].sequence;
    if (sequence->ended) continue;  // before this step was over
    try {
      accept_token(plan, result, row);
    } catch (const std::bad_alloc&) {
      scheduler_.finish(sequence);
      end(sequence, FinishReason::failed, kNoMemory);
    }
  }
  for (const PlannedSequence& entry : plan.sequences) {
    if (!entry.sequence->job || entry.sequence->ended || entry.context() < entry.sequence->size()) continue;
    scheduler_.finish(entry.sequence);
    outbox_.push_back({entry.sequence, {}});
  }
  flush();
}

// The extra rows of prompt tokens; logits have been written where they belong already.
void EngineLoop::keep_prompt_rows(const StepPlan& plan, StepResult& result) {
  for (std::size_t row = plan.num_sampled(); row < plan.rows.size(); ++row) {
    const PlannedRow& planned = plan.rows[row];
    const auto& sequence = plan.sequences[planned.entry].sequence;
    if (planned.next_id < 0 || sequence->ended) continue;
    sequence->prompt_rows[static_cast<std::size_t>(planned.position) + 1] = std::move(result.logprobs[row]);
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

// From the end of the one before: what its streams wait for.
void EngineLoop::measure_step(const StepPlan& plan) {
  const auto observe = [](StepHistogram& histogram, const auto& edges, double value) {
    const auto edge = std::lower_bound(edges.begin(), edges.end(), value);
    ++histogram.counts[static_cast<std::size_t>(edge - edges.begin())];
    histogram.sum += value;
  };
  double tokens = 0;
  int prefilled = 0;
  for (const PlannedSequence& entry : plan.sequences) {
    tokens += entry.count;
    prefilled += std::max(0, std::min(entry.context(), entry.sequence->prompt_size) - entry.first);
  }
  observe(current_.step_tokens, kStepTokenEdges, tokens);
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(step_began_, now)).count();
  observe(current_.step_seconds, kStepSecondEdges, seconds);
  scheduler_.measured(plan, seconds * 1000);
  if (prefilled == 0) return;
  current_.prefill_tokens += static_cast<std::uint64_t>(prefilled);
  current_.prefill_seconds += seconds;
  const double faded = std::exp2(-seconds / kPrefillHalfLife);
  recent_prefill_tokens_ = faded * recent_prefill_tokens_ + prefilled;
  recent_prefill_seconds_ = faded * recent_prefill_seconds_ + seconds;
  if (recent_prefill_seconds_ > 0) current_.prefill_rate = recent_prefill_tokens_ / recent_prefill_seconds_;
}

// Empty where no memory is to be had: next time then.
EngineLoop::CounterDownloads EngineLoop::begin_counters() const {
  CounterDownloads counters;
  const bool found = finds_memory([&] {
    for (const auto& store : stores_) counters.push_back(store->begin_counters());
  });
  if (!found) counters.clear();
  return counters;
}

// What all ranks have stored: a KV head on several of them counts as often as it is kept.
void EngineLoop::read_counters(CounterDownloads& counters) {
  for (std::size_t layer = 0; layer < current_.layers.size(); ++layer) {
    if (stores_.front()->group_of(static_cast<int>(layer)) < 0) continue;
    KvCounters sum;
    for (std::size_t rank = 0; rank < stores_.size(); ++rank)
      add_counters(sum, stores_[rank]->counters(*counters[rank], static_cast<int>(layer)));
    current_.layers[layer].counters = sum;
  }
  counters_read_ = std::chrono::steady_clock::now();
}

void EngineLoop::publish() {
  if (scheduler_.idle() && !flight_)
    if (CounterDownloads counters = begin_counters(); !counters.empty()) read_counters(counters);
  current_.host_seconds = host_.seconds();
  const PoolUse use = ledger_.use(0);
  current_.running = scheduler_.num_running();
  current_.pages_total = use.total;
  current_.pages_held = use.held;
  current_.pages_cached = use.cached;
  current_.pages_free = use.free;
  const auto& groups = cache_.groups;
  if (groups.back().lifetime == Lifetime::state) {
    const PoolUse records = ledger_.use(static_cast<int>(groups.size()) - 1);
    current_.records_total = records.total;
    current_.records_held = records.held;
    current_.records_cached = records.cached;
  }
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
