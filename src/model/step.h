// Step: the inputs of one forward pass: tokens, positions, slots, batch bounds, cache views, and the backend to do it
// with. Filled by the engine's runner; all tensors are device memory at addresses that stay the same from step to step.
#pragma once

#include <vector>

#include "kv/store.h"
#include "model/arena.h"
#include "ops/backend.h"

namespace octavo {

// What belongs to one cache group in this step.
struct GroupStep {
  Tensor slots;       // i32 [tokens]: where each token is stored
  Tensor page_table;  // i32 [num_seqs, max_pages]
  const AttentionPlan* plan = nullptr;
  Tensor records;  // i32 [num_seqs]: of a state group, which has nothing else
};

struct Step {
  Ops& ops;
  Comm& comm;
  Arena& arena;
  const KvStore& store;
  DType compute = DType::bf16;
  BatchView batch;
  Tensor ids;                     // i32 [tokens]
  Tensor sampled_rows;            // i32 [sampled]: the token rows whose logits are asked for
  std::vector<GroupStep> groups;  // by cache group

  const GroupStep& group_of(int layer) const { return groups[static_cast<std::size_t>(store.group_of(layer))]; }
  Tensor take(std::int64_t rows, std::int64_t columns) { return arena.take(compute, {rows, columns}); }
};

}  // namespace octavo
