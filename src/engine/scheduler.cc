#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/plan_writer.h"

namespace octavo {

struct Scheduler::Draft {
  std::vector<PlannedSequence> entries;
  int tokens_left = 0;
  int rows_left = 0;
  bool preempted = false;
};

namespace {

// Rows of logits that computing tokens [first, first + count) of this sequence takes; at most one a token.
int rows_of(const Sequence& sequence, int first, int count) {
  const int end = first + count;
  const int extra = std::max(0, std::min(end, sequence.extra_rows_end()) - std::max(first, sequence.rows_done));
  const bool sampled = end == sequence.planned_size() && !sequence.job;
  return extra + (sampled ? 1 : 0);
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvLedger& ledger, const std::vector<CacheGroup>& groups)
    : limits_(limits), ledger_(ledger), groups_(groups) {
  check(limits.max_tokens > 0 && limits.max_seqs > 0 && limits.max_rows > 0, "a step has room for something");
  check(static_cast<int>(groups.size()) == ledger.num_pools(), "one pool a cache group");
}

void Scheduler::add(std::shared_ptr<Sequence> sequence) {
  counts_.prompt_tokens += static_cast<std::uint64_t>(sequence->prompt_size);
  const bool shares = sequence->leader && limits_.prefix_caching && sequence->prompt_size > ledger_.page_size();
  if (shares)
    held_.push_back(std::move(sequence));
  else
    waiting_.insert(std::move(sequence));
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_cancelled() {
  std::vector<std::shared_ptr<Sequence>> cancelled;
  const auto is_cancelled = [](const std::shared_ptr<Sequence>& sequence) { return sequence->cancelled(); };
  for (const Order* order : {&running_, &waiting_})
    std::copy_if(order->begin(), order->end(), std::back_inserter(cancelled), is_cancelled);
  std::copy_if(held_.begin(), held_.end(), std::back_inserter(cancelled), is_cancelled);
  for (const auto& sequence : cancelled) finish(sequence);
  return cancelled;
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_all() {
  std::vector<std::shared_ptr<Sequence>> all(running_.begin(), running_.end());
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  all.insert(all.end(), held_.begin(), held_.end());
  for (const auto& sequence : all) finish(sequence);
  return all;
}

void Scheduler::finish(const std::shared_ptr<Sequence>& sequence) {
  sequence->ended = true;
  close_cache(*sequence);
  running_.erase(sequence);
  waiting_.erase(sequence);
  std::erase(held_, sequence);
}

// Followers find the leader's prompt in the cache once it is there; if the leader ended before, they compute it
// themselves.
void Scheduler::release_followers() {
  std::erase_if(held_, [this](const std::shared_ptr<Sequence>& sequence) {
    if (!sequence->leader->prompt_done && !sequence->leader->ended) return false;
    waiting_.insert(sequence);
    return true;
  });
}

StepPlan Scheduler::plan() {
  release_followers();
  Draft draft{.entries = {}, .tokens_left = limits_.max_tokens, .rows_left = limits_.max_rows};
  const std::vector<std::shared_ptr<Sequence>> running(running_.begin(), running_.end());
  // One token is kept for the first in order, should it still be computing its prompt.
  const int kept = !running.empty() && !running.front()->decoding() ? 1 : 0;
  draft.tokens_left -= kept;
  draft.rows_left -= kept;
  for (const auto& sequence : running)
    if (sequence->decoding()) schedule(draft, sequence);
  draft.tokens_left += kept;
  draft.rows_left += kept;
  for (const auto& sequence : running)
    if (!sequence->decoding()) schedule(draft, sequence);
  // After a preemption there is no room for newcomers, and the victim would be the first of them.
  while (!draft.preempted && !waiting_.empty() && num_running() < limits_.max_seqs && draft.tokens_left > 0) {
    const std::shared_ptr<Sequence> first = *waiting_.begin();
    // Preempted while its last step is under way: its tokens are not all known.
    if (first->steps_under_way > 0 || !admit(draft, first)) break;
  }
  check(!draft.entries.empty() || steps_under_way_ > 0 || (running_.empty() && waiting_.empty()),
        "the first in order always makes progress");
  return write_plan(std::move(draft.entries), ledger_);
}

int Scheduler::chunk_of(const Draft& draft, const Sequence& sequence) const {
  int count = std::min(sequence.remaining(), draft.tokens_left);
  if (sequence.job && sequence.computed < sequence.job->decode_from)
    count = std::min(count, sequence.job->decode_from - sequence.computed);
  else if (sequence.job)
    count = std::min(count, 1);
  for (int excess = 1; count > 0 && excess > 0; count -= std::max(excess, 0))
    excess = rows_of(sequence, sequence.computed, count) - draft.rows_left;
  return count;
}

void Scheduler::schedule(Draft& draft, const std::shared_ptr<Sequence>& sequence) {
  if (sequence->cache < 0) return;  // it has just been preempted
  const int count = chunk_of(draft, *sequence);
  if (count <= 0 || !make_room(draft, sequence, count)) return;
  draft.tokens_left -= count;
  draft.rows_left -= rows_of(*sequence, sequence->computed, count);
  draft.entries.push_back({sequence, sequence->computed, count});
}

// Takes pages from those behind in the order, the last one first. A sequence that finds nobody behind it keeps what it
// has and waits: those before it make progress, and end.
bool Scheduler::make_room(Draft& draft, const std::shared_ptr<Sequence>& sequence, int count) {
  while (!ledger_.extend(sequence->cache, count)) {
    const std::shared_ptr<Sequence> last = *running_.rbegin();
    if (last == sequence) {
      check(running_.size() > 1, "one sequence alone always fits");
      return false;
    }
    preempt(draft, last);
  }
  return true;
}

void Scheduler::preempt(Draft& draft, const std::shared_ptr<Sequence>& victim) {
  log::info(
      "preempted",
      {{"id", victim->id}, {"tokens", victim->computed}, {"running", num_running() - 1}, {"waiting", num_waiting()}});
  ++counts_.preemptions;
  draft.preempted = true;
  std::erase_if(draft.entries, [&](const PlannedSequence& entry) {
    if (entry.sequence != victim) return false;
    draft.tokens_left += entry.count;
    draft.rows_left += rows_of(*victim, entry.first, entry.count);
    return true;
  });
  close_cache(*victim);
  running_.erase(victim);
  waiting_.insert(victim);
}

void Scheduler::open_cache(Sequence& sequence) {
  sequence.cache = ledger_.open();
  sequence.computed = 0;
  if (!limits_.prefix_caching) return;
  sequence.extend_chain(ledger_.page_size());
  int reusable = sequence.size() - 1;  // something must be computed, or there would be no logits
  if (sequence.rows_done < sequence.extra_rows_end()) reusable = std::min(reusable, sequence.rows_done);
  sequence.computed = ledger_.reuse(sequence.cache, sequence.chain, reusable);
}

void Scheduler::close_cache(Sequence& sequence) {
  if (sequence.cache >= 0) ledger_.close(sequence.cache);
  sequence.cache = -1;
  sequence.computed = 0;
}

// Whether the newcomer's tokens fit beside what was promised to those who run: the rest of their prompts, and a page
// each to grow into. Promises are estimates that save work; what keeps the engine alive is make_room.
bool Scheduler::has_room(const Sequence& newcomer) const {
  const int page_size = ledger_.page_size();
  for (int pool = 0; pool < ledger_.num_pools(); ++pool) {
    const CacheGroup& group = groups_[static_cast<std::size_t>(pool)];
    const PoolUse use = ledger_.use(pool);
    if (group.lifetime == Lifetime::full) {
      const auto missing = [&](const Sequence& s) {
        return live_pages(group, s.planned_size(), page_size, 0) -
               static_cast<std::int64_t>(ledger_.pages(s.cache, pool).size());
      };
      std::int64_t wanted = missing(newcomer) + num_running();
      for (const auto& sequence : running_) wanted += std::max<std::int64_t>(0, missing(*sequence));
      if (wanted > use.free + use.cached) return false;
    } else {
      const std::int64_t a_step = live_pages(group, newcomer.size(), page_size, limits_.max_tokens);
      const std::int64_t steady = live_pages(group, std::int64_t{1} << 40, page_size, 1);
      if (a_step + steady * num_running() > use.total) return false;
    }
  }
  return true;
}

bool Scheduler::admit(Draft& draft, const std::shared_ptr<Sequence>& sequence) {
  open_cache(*sequence);
  const int count = chunk_of(draft, *sequence);
  const bool alone = running_.empty();
  if (count <= 0 || (!alone && !has_room(*sequence)) || !ledger_.extend(sequence->cache, count)) {
    check(!alone || count <= 0, "one sequence alone always fits");
    close_cache(*sequence);
    return false;
  }
  if (!sequence->admitted_before) {
    sequence->admitted_before = true;
    sequence->admitted = std::chrono::steady_clock::now();
    sequence->cached_tokens = sequence->computed;
    counts_.cached_prompt_tokens += static_cast<std::uint64_t>(sequence->computed);
  }
  waiting_.erase(sequence);
  running_.insert(sequence);
  draft.tokens_left -= count;
  draft.rows_left -= rows_of(*sequence, sequence->computed, count);
  draft.entries.push_back({sequence, sequence->computed, count});
  return true;
}

void Scheduler::advance(const StepPlan& plan) {
  ++steps_under_way_;
  for (const PlannedSequence& entry : plan.sequences) {
    Sequence& sequence = *entry.sequence;
    ++sequence.steps_under_way;
    sequence.drawn_row = -1;
    sequence.computed = entry.context();
    if (sequence.computed >= sequence.prompt_size) sequence.prompt_done = true;
    if (limits_.prefix_caching) sequence.extend_chain(ledger_.page_size());
    ledger_.commit(sequence.cache, sequence.computed, sequence.chain);
  }
  for (std::size_t row = 0; row < plan.num_sampled(); ++row)
    plan.sequences[plan.rows[row].entry].sequence->drawn_row = static_cast<int>(row);
}

void Scheduler::settle(const StepPlan& plan) {
  --steps_under_way_;
  for (const PlannedSequence& entry : plan.sequences)
    if (--entry.sequence->steps_under_way == 0) entry.sequence->drawn_row = -1;
}

bool Scheduler::needs_tokens() const {
  return std::any_of(running_.begin(), running_.end(), [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->drawn_row >= 0 && sequence->sampler.needs_history();
  });
}

}  // namespace octavo
