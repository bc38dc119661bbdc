// Runner: one rank's part of a step: plan -> upload -> plan_attention -> model.forward -> sample, log_probs -> host.
//
// Every row goes through the same verbs whatever shares the step with it; a plan without decodes takes no other way
// than one with them. All memory is reserved when the runner is made, except what a request for more rows of logits
// adds.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/step_inputs.h"
#include "engine/step_plan.h"
#include "kv/store.h"
#include "model/arena.h"
#include "model/model.h"
#include "ops/backend.h"

namespace octavo {

struct RunnerParts {
  Backend& backend;
  Model& model;
  const KvStore& store;
  DType compute = DType::bf16;
  std::vector<AttentionShape> group_shapes;  // of each group's first layer
};

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const RunnerParts& parts, const StepLimits& limits);

  // An error is the device's: out of memory. The step has then not happened.
  Result<StepResult> run(const StepPlan& plan);

  // From now on a step may ask for so many rows of logits.
  Status ensure_rows(int max_rows);
  int max_rows() const { return inputs_->limits().max_rows; }
  std::size_t activation_bytes() const { return activation_bytes_; }

  // Activation memory of the largest step within these limits; parts.store may be of any size.
  static Result<std::size_t> measure(const RunnerParts& parts, const StepLimits& limits);

 private:
  Runner(const RunnerParts& parts, std::unique_ptr<StepInputs> inputs)
      : parts_(parts), inputs_(std::move(inputs)), arena_(Arena::measuring()) {}
  Step make_step(Ops& ops, Arena& arena) const;
  Status allocate_outputs();
  void sample(const StepPlan& plan, const Tensor& logits, StepResult& result);
  void log_probs(const StepPlan& plan, const Tensor& logits, StepResult& result);
  void run_log_probs(const StepPlan& plan, const Tensor& logits, std::size_t begin, std::size_t end,
                     StepResult& result);
  void download_logits(const StepPlan& plan, const Tensor& logits);

  RunnerParts parts_;
  std::unique_ptr<StepInputs> inputs_;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // by group
  Arena arena_;
  std::size_t activation_bytes_ = 0;
  DeviceArray token_memory_;  // i32 [max_rows]: drawn tokens, then the known next ones of extra rows
  DeviceArray chosen_memory_, rank_memory_, top_id_memory_, top_value_memory_;
};

}  // namespace octavo
