// Scheduler: decides what the next step computes. Continuous batching: decodes first, then chunks of prompts that are
// under way, then new sequences, in order of priority and arrival, up to a budget of tokens a step.
//
// Promises: whoever is first in that order makes progress in every step, whatever the pool's size, provided that one
// sequence of max_model_len fits; so nothing waits for ever. When pages run out, the last in the order gives all of its
// pages back and is computed again later, which changes no output. Nobody overtakes the first one waiting. Touched by
// the engine's thread alone; so is the ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/group.h"
#include "kv/ledger.h"

namespace octavo {

struct SchedulerLimits {
  int max_tokens = 2048;  // a step
  int max_seqs = 64;      // running at once
  int max_rows = 64;      // of logits a step, at least max_seqs
  bool prefix_caching = true;
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
  // The step was launched. What the device is given from now on comes after it, so its pages may be shared.
  void advance(const StepPlan& plan);
  // What the step draws is known, and is about to be accepted.
  void settle(const StepPlan& plan);
  // Whether a sequence's next draw needs the tokens themselves, so that no step can be planned before they are known.
  bool needs_tokens() const;
  // This sequence has ended.
  void finish(const std::shared_ptr<Sequence>& sequence);

  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_.size() + held_.size()); }
  bool idle() const { return running_.empty() && waiting_.empty() && held_.empty(); }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  using Order = std::set<std::shared_ptr<Sequence>, SequenceOrder>;
  struct Draft;  // the step being decided

  void release_followers();
  void schedule(Draft& draft, const std::shared_ptr<Sequence>& sequence);
  bool make_room(Draft& draft, const std::shared_ptr<Sequence>& sequence, int count);
  void preempt(Draft& draft, const std::shared_ptr<Sequence>& victim);
  bool admit(Draft& draft, const std::shared_ptr<Sequence>& sequence);
  bool has_room(const Sequence& newcomer) const;
  void open_cache(Sequence& sequence);
  void close_cache(Sequence& sequence);
  int chunk_of(const Draft& draft, const Sequence& sequence) const;

  SchedulerLimits limits_;
  KvLedger& ledger_;
  std::vector<CacheGroup> groups_;
  Order running_;
  Order waiting_;
  std::vector<std::shared_ptr<Sequence>> held_;  // wait for their leader's prompt
  int steps_under_way_ = 0;
  SchedulerCounts counts_;
};

}  // namespace octavo
