// Runners: the runners of all ranks as one. Every rank computes every step; what comes out of it is rank 0's, whose
// logits are the others' too.
#pragma once

#include <memory>
#include <vector>

#include "engine/rank_threads.h"
#include "engine/runner.h"

namespace octavo {

class Runners {
 public:
  // parts: of each rank. `threads` are used until the destructor has returned.
  static Result<std::unique_ptr<Runners>> create(RankThreads& threads, const std::vector<RunnerParts>& parts,
                                                 const StepLimits& limits);

  // Each as Runner's.
  Status record_decodes();
  Result<LaunchedStep> launch(const StepPlan& plan);
  Result<StepResult> collect(const StepPlan& plan, LaunchedStep step);
  Status ensure_rows(int max_rows);
  int max_rows() const { return runners_.front()->max_rows(); }

  std::size_t activation_bytes() const;  // of all ranks

 private:
  explicit Runners(RankThreads& threads) : threads_(threads), runners_(static_cast<std::size_t>(threads.size())) {}
  Runner& of(int rank) { return *runners_[static_cast<std::size_t>(rank)]; }

  RankThreads& threads_;
  std::vector<std::unique_ptr<Runner>> runners_;  // by rank
};

}  // namespace octavo
