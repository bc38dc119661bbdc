// LocalEngine: an Engine from a model that is already loaded: plans the memory, makes store, ledger, scheduler and
// runner, and runs the loop of three verbs (plan -> run -> commit) in a thread of its own.
//
// Threads meet in the inbox (requests in), the token queues (events out) and the published statistics; everything else
// is touched by the loop alone. When a step fails, every request fails with one sentence, and so does every later
// submit. Engines of one loaded model share its weights, backends and ranks' threads, and must work one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/rank_threads.h"

namespace octavo {

struct LoadedRank {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::vector<Buffer> weights;  // the model looks into them
};

struct LoadedModel {
  std::vector<LoadedRank> ranks;
  std::unique_ptr<RankThreads> threads;  // that they work on
  DType compute = DType::bf16;
  std::size_t weight_bytes = 0;     // of all ranks
  std::size_t available_bytes = 0;  // of rank 0's device, once the weights are all there
  double load_seconds = 0;

  const ModelSpec& spec() const { return ranks.front().model->spec(); }
  Device& device() const { return ranks.front().backend->device(); }
  std::string describe_device() const {  // "2 ranks of 1 thread, avx512"
    return (ranks.size() > 1 ? std::to_string(ranks.size()) + " ranks of " : "") + device().describe();
  }
};

// The threads for these ranks, which stay where they are.
std::unique_ptr<RankThreads> start_threads(const std::vector<LoadedRank>& ranks);

Result<std::unique_ptr<Engine>> make_local_engine(std::shared_ptr<LoadedModel> loaded, EngineConfig config);

}  // namespace octavo
