#include "engine/scheduler.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/plan_writer.h"
#include "engine/snapshot_points.h"

namespace octavo {

struct Scheduler::Draft {
  std::vector<PlannedSequence> entries;
  StepLoad load;
  int tokens_left = 0;
  int rows_left = 0;
  bool streams = false;  // some wait for the end of this step
  bool preempted = false;
};

namespace {

// Tokens of prompts that a step takes even if --max-itl-ms has no room for them: an answer that never begins is worse.
constexpr int kLeastPrompt = 4;
// So many times smaller than the bound of a step with streams: what prompts may take however many streams there are.
constexpr int kLeastShare = 4;

// An eighth of a page of a prompt's tokens is computed again sooner than the page that holds them is waited for and
// copied.
int least_copied(int page_size) { return std::max(1, page_size / 8); }

// Rows of logits that computing tokens [first, first + count) of this sequence takes; at most one a token.
int rows_of(const Sequence& sequence, int first, int count) {
  const int end = first + count;
  const int extra = std::max(0, std::min(end, sequence.extra_rows_end()) - std::max(first, sequence.rows_done));
  const bool sampled = end == sequence.planned_size() && !sequence.job;
  return extra + (sampled ? 1 : 0);
}

bool had_less(const Sequence& a, const Sequence& b) {
  return std::tuple(a.priority, FairQueue::served(a)) < std::tuple(b.priority, FairQueue::served(b));
}

void add_load(StepLoad& load, int first, int count) {
  if (count == 1)
    load.add_decode(first + count);
  else
    load.add_prompt(first, count);
}

void tell_preempted(const Sequence& victim, int running, int waiting) {
  try {
    log::info("preempted",
              {{"id", victim.id}, {"tokens", victim.computed}, {"running", running}, {"waiting", waiting}});
  } catch (const std::bad_alloc&) {
    return;  // a line less
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvLedger& ledger, const std::vector<CacheGroup>& groups)
    : limits_(limits), ledger_(ledger), groups_(groups) {
  check(limits.max_tokens > 0 && limits.max_seqs > 0 && limits.max_rows > 0, "a step has room for something");
  check(static_cast<int>(groups.size()) == ledger.num_pools(), "one pool a cache group");
  has_states_ = std::any_of(groups.begin(), groups.end(),
                            [](const CacheGroup& group) { return group.lifetime == Lifetime::state; });
}

void Scheduler::add(std::shared_ptr<Sequence> sequence) {
  // Of a shorter prompt the leader leaves nothing to wait for.
  const int least = leaves_snapshots() ? first_snapshot(ledger_.page_size()) : least_copied(ledger_.page_size());
  const bool shares = sequence->leader && limits_.prefix_caching && sequence->prompt_size > least;
  bool entered = false;
  try {
    queue_.enter(*sequence);
    entered = true;
    if (shares)
      held_.push_back(sequence);
    else
      queue_.push(sequence);
  } catch (const std::bad_alloc&) {
    if (entered) queue_.leave(*sequence);
    stop_awaiting(*sequence);
    throw;
  }
  counts_.prompt_tokens += static_cast<std::uint64_t>(sequence->prompt_size);
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_cancelled() {
  std::vector<std::shared_ptr<Sequence>> cancelled;
  const auto look_at = [&](const std::shared_ptr<Sequence>& sequence) {
    if (sequence->cancelled()) cancelled.push_back(sequence);
  };
  std::for_each(running_.begin(), running_.end(), look_at);
  queue_.for_each(look_at);
  std::for_each(held_.begin(), held_.end(), look_at);
  for (const auto& sequence : cancelled) finish(sequence);
  return cancelled;
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_all() {
  std::vector<std::shared_ptr<Sequence>> all(running_.begin(), running_.end());
  queue_.for_each([&](const std::shared_ptr<Sequence>& sequence) { all.push_back(sequence); });
  all.insert(all.end(), held_.begin(), held_.end());
  for (const auto& sequence : all) finish(sequence);
  return all;
}

void Scheduler::finish(const std::shared_ptr<Sequence>& sequence) {
  sequence->ended = true;
  if (!sequence->admitted_before()) stop_awaiting(*sequence);
  if (sequence->awaiting == 0 || !lends(*sequence) || !keep(sequence)) close_cache(*sequence);
  running_.erase(sequence);
  queue_.extract(sequence);
  std::erase(held_, sequence);
  queue_.leave(*sequence);
}

// Followers find the leader's prompt in the cache once it is there; if the leader ended before, they compute it
// themselves.
void Scheduler::release_followers() {
  const auto is_free = [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->leader->prompt_done || sequence->leader->ended;
  };
  for (const auto& sequence : held_) {
    if (!is_free(sequence)) continue;
    looked_at_ = sequence;
    queue_.push(sequence);
  }
  std::erase_if(held_, is_free);
}

// A follower has been let in, or has ended before. The last one lets go of what was kept for it.
void Scheduler::stop_awaiting(Sequence& follower) {
  if (!follower.leader || --follower.leader->awaiting > 0 || !follower.leader->ended) return;
  close_cache(*follower.leader);
  std::erase(kept_, follower.leader);
}

// Whether there was memory to remember it by; else its followers compute the prompt themselves.
bool Scheduler::keep(const std::shared_ptr<Sequence>& leader) {
  try {
    kept_.push_back(leader);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Whether a leader's pages hold the prompt but for its last token, which whoever goes on from there computes. What lies
// behind in the last page is of no account.
bool Scheduler::lends(const Sequence& leader) const {
  return limits_.prefix_caching && !has_states_ && leader.cache >= 0 && leader.computed >= leader.prompt_size - 1 &&
         ledger_.publishes(leader.cache);
}

// Whether there were pages to give up.
bool Scheduler::give_up_kept() {
  for (const auto& leader : kept_) close_cache(*leader);
  return !std::exchange(kept_, {}).empty();
}

StepPlan Scheduler::plan() {
  looked_at_ = nullptr;
  release_followers();
  Draft draft;
  draft.tokens_left = limits_.max_tokens;
  draft.rows_left = limits_.max_rows;
  const std::vector<std::shared_ptr<Sequence>> running(running_.begin(), running_.end());
  // One token is kept for the first in order, should it still be computing its prompt.
  const int kept = !running.empty() && !running.front()->decoding() ? 1 : 0;
  draft.tokens_left -= kept;
  draft.rows_left -= kept;
  for (const auto& sequence : running)
    if (sequence->decoding()) schedule(draft, sequence);
  draft.tokens_left += kept;
  draft.rows_left += kept;
  draft.streams = !draft.entries.empty();
  plan_prompts(draft);
  check(!draft.entries.empty() || steps_under_way_ > 0 || (running_.empty() && queue_.size() == 0),
        "somebody always makes progress");
  looked_at_ = nullptr;
  return write_plan(std::move(draft.entries), ledger_);
}

// Prompts under way and newcomers, in one order: whoever had less goes first, and of equals the one that runs.
void Scheduler::plan_prompts(Draft& draft) {
  std::vector<std::shared_ptr<Sequence>> prompts;
  for (const auto& sequence : running_)
    if (!sequence->decoding()) prompts.push_back(sequence);
  const auto goes_before = [](const std::shared_ptr<Sequence>& a, const std::shared_ptr<Sequence>& b) {
    return had_less(*a, *b) || (!had_less(*b, *a) && ByArrival()(a, b));
  };
  bool closed = false;  // to newcomers
  while (draft.tokens_left > 0 && prompt_chunk(draft, 0, 1) > 0) {
    // After a preemption there is no room for newcomers, and the victim might be the first of them.
    closed |= draft.preempted || num_running() >= limits_.max_seqs;
    const std::shared_ptr<Sequence> newcomer = closed ? nullptr : queue_.front();
    const auto first = std::min_element(prompts.begin(), prompts.end(), goes_before);
    if (newcomer && (first == prompts.end() || had_less(*newcomer, **first))) {
      // Preempted while its last step is under way: its tokens are not all known.
      closed = newcomer->steps_under_way > 0 || !admit(draft, newcomer);
    } else if (first != prompts.end()) {
      schedule(draft, *first);
      prompts.erase(first);
    } else {
      return;
    }
  }
}

// Of the tokens of a prompt from `first` on, those that one step may take.
int Scheduler::prompt_chunk(const Draft& draft, int first, int wanted) const {
  if (limits_.max_chunk > 0) wanted = std::min(wanted, limits_.max_chunk);
  if (!draft.streams) return wanted;
  const int taken = static_cast<int>(draft.load.prompt_tokens);
  if (limits_.mixed_tokens > 0) {
    const int beside = limits_.mixed_tokens - static_cast<int>(draft.load.decodes);
    wanted = std::min(wanted, std::max(0, std::max({beside, limits_.mixed_tokens / kLeastShare, 1}) - taken));
  }
  if (limits_.max_itl_ms <= 0) return wanted;
  const int least = std::max(0, kLeastPrompt - taken);
  return std::min(wanted, std::max(least, cost_.most_tokens(draft.load, first, wanted, limits_.max_itl_ms)));
}

// How many of a sequence's tokens from `first` on are computed now; those before it are there.
int Scheduler::chunk_of(const Draft& draft, const Sequence& sequence, int first) const {
  int count = std::min(sequence.remaining() - (first - sequence.computed), draft.tokens_left);
  if (sequence.job && first < sequence.job->decode_from)
    count = std::min(count, sequence.job->decode_from - first);
  else if (sequence.job)
    count = std::min(count, 1);
  if (leaves_snapshots()) count = std::min(count, next_snapshot(sequence, first, ledger_.page_size()) - first);
  if (!sequence.decoding()) count = prompt_chunk(draft, first, count);
  for (int excess = 1; count > 0 && excess > 0; count -= std::max(excess, 0))
    excess = rows_of(sequence, first, count) - draft.rows_left;
  return count;
}

void Scheduler::schedule(Draft& draft, const std::shared_ptr<Sequence>& sequence) {
  if (sequence->cache < 0) return;  // it has just been preempted
  looked_at_ = sequence;
  const int count = chunk_of(draft, *sequence, sequence->computed);
  if (count > 0 && make_room(draft, sequence, count)) take(draft, {sequence, sequence->computed, count});
}

void Scheduler::take(Draft& draft, PlannedSequence entry) {
  draft.tokens_left -= entry.count;
  draft.rows_left -= rows_of(*entry.sequence, entry.first, entry.count);
  add_load(draft.load, entry.first, entry.count);
  FairQueue::charge(*entry.sequence, entry.first, entry.context());
  draft.entries.push_back(std::move(entry));
}

// Takes pages from those behind in the order, the last one first. A sequence that finds nobody behind it keeps what it
// has and waits: those before it make progress, and end.
bool Scheduler::make_room(Draft& draft, const std::shared_ptr<Sequence>& sequence, int count) {
  while (!ledger_.extend(sequence->cache, count)) {
    if (give_up_kept()) continue;
    const std::shared_ptr<Sequence> last = *running_.rbegin();
    if (last == sequence) {
      check(running_.size() > 1, "one sequence alone always fits");
      return false;
    }
    std::erase_if(draft.entries, [&](const PlannedSequence& entry) {
      if (entry.sequence != last) return false;
      draft.tokens_left += entry.count;
      draft.rows_left += rows_of(*last, entry.first, entry.count);
      return true;
    });
    draft.preempted = true;
    preempt(last);
  }
  return true;
}

// Takes no memory: it must not fail.
void Scheduler::preempt(const std::shared_ptr<Sequence>& victim) {
  tell_preempted(*victim, num_running() - 1, num_waiting());
  ++counts_.preemptions;
  close_cache(*victim);
  queue_.push(running_.extract(victim));
}

void Scheduler::open_cache(Sequence& sequence) {
  sequence.cache = ledger_.open();
  sequence.computed = 0;
  if (!limits_.prefix_caching) return;
  sequence.extend_chain(ledger_.page_size());
  int reusable = sequence.size() - 1;  // something must be computed, or there would be no logits
  if (sequence.rows_done < sequence.extra_rows_end()) reusable = std::min(reusable, sequence.rows_done);
  sequence.computed = ledger_.reuse(sequence.cache, sequence.chain, reusable);
  if (!has_states_) return;
  const int shared = ledger_.reusable_without_states(sequence.chain, reusable);
  sequence.shared_pages = shared > sequence.computed ? shared / ledger_.page_size() : 0;
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

// The pages, by pool, in which the leader has what follows on the whole pages that this follower has found of their
// prompt. Empty: they are not there, or not worth a copy. Until the step is launched the follower counts none of these
// tokens as its own: a plan may be given up, and the next one made when the leader has gone.
std::vector<std::int32_t> Scheduler::begun_pages(const Sequence& follower) const {
  const int end = follower.prompt_size - 1, page_size = ledger_.page_size();
  if (!follower.leader || !lends(*follower.leader)) return {};
  const Sequence& leader = *follower.leader;
  if (end - follower.computed < least_copied(page_size) || end - follower.computed >= page_size) return {};
  std::vector<std::int32_t> pages;
  for (int pool = 0; pool < ledger_.num_pools(); ++pool) {
    pages.push_back(ledger_.pages(leader.cache, pool)[static_cast<std::size_t>(end / page_size)]);
    if (pages.back() == kSinkPage) return {};
  }
  return pages;
}

bool Scheduler::admit(Draft& draft, const std::shared_ptr<Sequence>& sequence) {
  looked_at_ = sequence;
  open_cache(*sequence);
  PlannedSequence entry{.sequence = sequence, .begun = begun_pages(*sequence)};
  entry.first = entry.begun.empty() ? sequence->computed : sequence->prompt_size - 1;
  entry.count = chunk_of(draft, *sequence, entry.first);
  const bool alone = running_.empty();
  const bool fits = entry.count > 0 && (alone || has_room(*sequence)) &&
                    ledger_.extend(sequence->cache, entry.context() - sequence->computed);
  if (!fits) {
    close_cache(*sequence);
    if (entry.count > 0 && give_up_kept()) return admit(draft, sequence);
    check(!alone || entry.count <= 0, "one sequence alone always fits");
    return false;
  }
  let_in(sequence, entry.first);
  take(draft, std::move(entry));
  return true;
}

// found: tokens that need not be computed.
void Scheduler::let_in(const std::shared_ptr<Sequence>& sequence, int found) {
  if (!sequence->admitted_before()) {
    sequence->turn = ++turns_;
    sequence->admitted = std::chrono::steady_clock::now();
    sequence->cached_tokens = found;
    counts_.cached_prompt_tokens += static_cast<std::uint64_t>(found);
    stop_awaiting(*sequence);
  }
  running_.insert(queue_.extract(sequence));
}

void Scheduler::abandon(const StepPlan& plan) {
  if (!has_states_) return;
  for (const PlannedSequence& entry : plan.sequences)
    if (running_.contains(entry.sequence)) preempt(entry.sequence);
}

void Scheduler::advance(const StepPlan& plan) {
  ++steps_under_way_;
  for (const PlannedSequence& entry : plan.sequences) {
    Sequence& sequence = *entry.sequence;
    ++sequence.steps_under_way;
    sequence.drawn_row = -1;
    sequence.computed = entry.context();
    if (sequence.computed >= sequence.prompt_size) sequence.prompt_done = true;
    publish(sequence);
  }
  for (std::size_t row = 0; row < plan.num_sampled(); ++row)
    plan.sequences[plan.rows[row].entry].sequence->drawn_row = static_cast<int>(row);
}

void Scheduler::publish(Sequence& sequence) {
  const bool at_point =
      leaves_snapshots() && next_snapshot(sequence, sequence.computed - 1, ledger_.page_size()) == sequence.computed;
  try {
    if (limits_.prefix_caching) sequence.extend_chain(ledger_.page_size());
    ledger_.commit(sequence.cache, sequence.computed, sequence.chain, at_point);
  } catch (const std::bad_alloc&) {
    ledger_.commit(sequence.cache, sequence.computed, {}, at_point);  // nobody can share these pages yet
  }
}

void Scheduler::measured(const StepPlan& plan, double milliseconds) {
  if (limits_.max_itl_ms <= 0) return;
  StepLoad load;
  for (const PlannedSequence& entry : plan.sequences) add_load(load, entry.first, entry.count);
  // Of steps without prompts there are so many that the others would be forgotten.
  if (load.prompt_tokens > 0) cost_.observe(load, milliseconds);
}

std::shared_ptr<Sequence> Scheduler::blamed() const {
  if (looked_at_ && !looked_at_->ended) return looked_at_;
  return running_.empty() ? queue_.front() : *running_.rbegin();
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
