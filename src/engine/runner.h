// Runner: one rank's part of a step: plan -> upload -> plan_attention -> model.forward -> sample, log_probs -> host.
//
// launch() gives all of it to the device, collect() waits for what it draws; a plan may refer to the tokens of the one
// launched before it. Every row goes through the same verbs whatever shares the step with it; a plan without decodes
// takes no other way than one with them. A step of decodes alone is recorded once for each size of batch that the
// backend names, and replayed from then on: the same work on the same memory. All memory is reserved when the runner is
// made, except what a request for more rows of logits adds.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/step_inputs.h"
#include "engine/step_outputs.h"
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
  std::vector<AttentionShape> group_shapes;  // of the first layer of each group that is attended
};

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const RunnerParts& parts, const StepLimits& limits);

  // Records the decode steps of every size on a device that works by itself, so that no request waits for it later.
  // Writes nothing but the sink page.
  Status record_decodes();

  // An error is the device's: out of memory. The step has then not happened.
  Result<LaunchedStep> launch(const StepPlan& plan);
  // An error: the device has failed, and the results are not to be believed.
  Result<StepResult> collect(const StepPlan& plan, LaunchedStep step);
  // launch() of a rank whose results are another's too. A device that works by itself draws all the same: it is given
  // the next step before the host knows the tokens.
  Status follow(const StepPlan& plan);
  Status status() const { return parts_.backend.device().status(); }

  // From now on a step may ask for so many rows of logits. Not while a step is under way.
  Status ensure_rows(int max_rows);
  int max_rows() const { return inputs_->limits().max_rows; }
  std::size_t activation_bytes() const { return activation_bytes_; }

  // Activation memory of the largest step within these limits; parts.store may be of any size.
  static Result<std::size_t> measure(const RunnerParts& parts, const StepLimits& limits);

 private:
  // A step that can be replayed, and where it leaves its logits; without a recording it cannot be recorded.
  struct Recorded {
    std::unique_ptr<Recording> recording;
    Tensor logits;
  };

  Runner(const RunnerParts& parts, std::unique_ptr<StepInputs> inputs)
      : parts_(parts), inputs_(std::move(inputs)), outputs_(parts.backend), arena_(Arena::measuring()) {}
  Step make_step(Ops& ops, Comm& comm, Arena& arena) const;
  int recorded_batch(const StepPlan& plan) const;
  int recorded_batch(int num_seqs) const;
  void copy_pages(const StepPlan& plan);
  Result<Tensor> compute(const StepPlan& plan);
  Tensor forward();
  Tensor replay(int num_seqs);

  RunnerParts parts_;
  std::unique_ptr<StepInputs> inputs_;
  StepOutputs outputs_;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // by group that is attended
  Buffer zero_;                                        // an index of rows
  Arena arena_;
  std::size_t activation_bytes_ = 0;
  std::map<int, Recorded> recorded_;  // by number of sequences
};

}  // namespace octavo
