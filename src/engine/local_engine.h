// LocalEngine: an Engine from a model that is already loaded: plans the memory, makes store, ledger, scheduler and
// runner, and runs the loop of three verbs (plan -> run -> commit) in a thread of its own.
//
// Threads meet in the inbox (requests in), the token queues (events out) and the published statistics; everything else
// is touched by the loop alone. When a step fails, every request fails with one sentence, and so does every later
// submit. Engines of one loaded model share its weights and its backend, and must work one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace octavo {

struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::vector<Buffer> weights;  // the model looks into them
  DType compute = DType::bf16;
  std::size_t weight_bytes = 0;
  std::size_t available_bytes = 0;  // of device memory, once the weights are all there
  double load_seconds = 0;
};

Result<std::unique_ptr<Engine>> make_local_engine(std::shared_ptr<LoadedModel> loaded, const EngineConfig& config);

}  // namespace octavo
