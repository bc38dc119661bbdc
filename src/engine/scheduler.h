// Scheduler: decides what the next step computes. Continuous batching: decodes first, then prompts, those under way and
// those of newcomers, up to a budget of tokens a step and, if asked for, of milliseconds. Whose prompt is next: the
// smallest priority, then the caller that had the least (engine/fair_queue.h), then arrival.
//
// Promises: every step computes something, whatever the pool's size, provided that one sequence of max_model_len fits;
// nothing waits for ever. The n answers to a prompt compute it once: they share its whole pages, and each begins with a
// copy of the last one, which the first answer keeps until all have it or pages run out. When pages run out, the last
// one let in of the largest priority gives all of its pages back and is computed again later, which changes no output
// and is not charged. Nobody overtakes the first one waiting. A plan that throws for want of memory has changed nothing
// that matters: end the sequence that blamed() names, and plan anew. Touched by the engine's thread alone; so is the
// ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/fair_queue.h"
#include "engine/sequence.h"
#include "engine/step_cost.h"
#include "engine/step_plan.h"
#include "kv/group.h"
#include "kv/ledger.h"

namespace octavo {

struct SchedulerLimits {
  int max_tokens = 2048;  // a step
  int max_seqs = 64;      // running at once
  int max_rows = 64;      // of logits a step, at least max_seqs
  int max_chunk = 0;      // tokens of one prompt in a step; 0: no bound but the step's
  double max_itl_ms = 0;  // the longest step while answers are streamed; 0: no bound
  int mixed_tokens = 0;   // of a step with prompts while answers are streamed; 0: max_tokens
  bool prefix_caching = true;
};

// Let in first runs first. Priorities apart, this order never changes while a sequence runs.
struct ByTurn {
  bool operator()(const std::shared_ptr<Sequence>& a, const std::shared_ptr<Sequence>& b) const {
    return std::tuple(a->priority, a->turn) < std::tuple(b->priority, b->turn);
  }
};

struct SchedulerCounts {
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_prompt_tokens = 0;
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvLedger& ledger, const std::vector<CacheGroup>& groups);

  void add(std::shared_ptr<Sequence> sequence);
  void set_max_rows(int max_rows) { limits_.max_rows = max_rows; }

  // Takes out what its readers have cancelled; their pages are free at once.
  std::vector<std::shared_ptr<Sequence>> take_cancelled();
  // Everything there is, for an end that concerns all.
  std::vector<std::shared_ptr<Sequence>> take_all();

  // May be asked again before the step before is settled: a token that is being drawn then stands for itself.
  StepPlan plan();
  // The step may have begun, and was given up. A record takes no token twice: its sequence is computed anew.
  void abandon(const StepPlan& plan);
  // The step was launched. What the device is given from now on comes after it, so its pages may be shared.
  void advance(const StepPlan& plan);
  // What the step draws is known, and is about to be accepted.
  void settle(const StepPlan& plan);
  // Whether a sequence's next draw needs the tokens themselves, so that no step can be planned before they are known.
  bool needs_tokens() const;
  // How long the step took, of which the sizes of later chunks are learned.
  void measured(const StepPlan& plan, double milliseconds);
  // The sequence for which plan() found no memory, or the one to give up first; null: there is none.
  std::shared_ptr<Sequence> blamed() const;
  // This sequence has ended.
  void finish(const std::shared_ptr<Sequence>& sequence);

  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(queue_.size() + held_.size()); }
  bool idle() const { return running_.empty() && queue_.size() == 0 && held_.empty(); }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  using Running = std::set<std::shared_ptr<Sequence>, ByTurn>;
  struct Draft;  // the step being decided

  void release_followers();
  void plan_prompts(Draft& draft);
  void schedule(Draft& draft, const std::shared_ptr<Sequence>& sequence);
  void take(Draft& draft, PlannedSequence entry);
  bool make_room(Draft& draft, const std::shared_ptr<Sequence>& sequence, int count);
  void preempt(const std::shared_ptr<Sequence>& victim);
  bool admit(Draft& draft, const std::shared_ptr<Sequence>& sequence);
  void let_in(const std::shared_ptr<Sequence>& sequence, int found);
  std::vector<std::int32_t> begun_pages(const Sequence& follower) const;
  void stop_awaiting(Sequence& follower);
  bool lends(const Sequence& leader) const;
  bool keep(const std::shared_ptr<Sequence>& leader);
  bool give_up_kept();
  bool has_room(const Sequence& newcomer) const;
  void open_cache(Sequence& sequence);
  void close_cache(Sequence& sequence);
  int chunk_of(const Draft& draft, const Sequence& sequence, int first) const;
  int prompt_chunk(const Draft& draft, int first, int wanted) const;
  bool leaves_snapshots() const { return limits_.prefix_caching && has_states_; }
  void publish(Sequence& sequence);

  SchedulerLimits limits_;
  KvLedger& ledger_;
  std::vector<CacheGroup> groups_;
  bool has_states_ = false;
  Running running_;
  FairQueue queue_;
  std::vector<std::shared_ptr<Sequence>> held_;  // wait for their leader's prompt
  std::vector<std::shared_ptr<Sequence>> kept_;  // leaders that have ended before all followers had their prompt
  std::shared_ptr<Sequence> looked_at_;          // what is planned now
  std::uint64_t turns_ = 0;
  int steps_under_way_ = 0;
  StepCost cost_;
  SchedulerCounts counts_;
};

}  // namespace octavo
