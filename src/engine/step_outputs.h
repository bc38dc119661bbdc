// StepOutputs: the device memory that one step's results lie in, and their way to the host. What launch() starts is on
// its way when it returns; LaunchedStep::collect() waits for it, and may be called after further steps were launched.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/step_inputs.h"
#include "engine/step_plan.h"
#include "ops/backend.h"

namespace octavo {

// A step that the device works on. Refers to no plan: collect() is given the one that was launched. It needs no memory,
// and is called once.
class LaunchedStep {
 public:
  StepResult collect(const StepPlan& plan);

 private:
  friend class StepOutputs;
  void make_room(const StepPlan& plan);
  struct Logprobs {
    std::size_t begin = 0;  // rows [begin, begin + count)
    std::size_t count = 0;
    std::size_t top = 0;
    std::unique_ptr<Download> chosen, rank, top_ids, top_values;
  };
  std::unique_ptr<Download> tokens_;
  std::vector<Logprobs> logprobs_;
  StepResult result_;
};

class StepOutputs {
 public:
  explicit StepOutputs(Backend& backend) : backend_(backend) {}
  Status ensure_rows(int max_rows);

  // Draws tokens into inputs.drawn(), computes the log-probabilities that rows ask for. Rows of logits that go to the
  // host themselves have arrived when this returns.
  Result<LaunchedStep> launch(const StepPlan& plan, const Tensor& logits, const StepInputs& inputs);
  // Only the first of it.
  Status draw(const StepPlan& plan, const Tensor& logits, const StepInputs& inputs);

 private:
  static std::int64_t num_drawn(const StepPlan& plan, const Tensor& logits);
  void launch_log_probs(const StepPlan& plan, const Tensor& logits, const Tensor& ids, LaunchedStep& step);
  LaunchedStep::Logprobs launch_rows(const Tensor& logits, const Tensor& ids, std::size_t begin, std::size_t count,
                                     std::int64_t top);
  void download_logits(const StepPlan& plan, const Tensor& logits);
  std::unique_ptr<Download> begin_download(const Tensor& tensor) {
    return backend_.device().begin_download(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  }

  Backend& backend_;
  DeviceArray changed_memory_;  // f32 [sampled rows, vocab]: logits with bias and penalties
  DeviceArray known_memory_;    // i32 [max_rows]: the tokens whose log-probabilities are asked for
  DeviceArray chosen_memory_, rank_memory_, top_id_memory_, top_value_memory_;
};

}  // namespace octavo
