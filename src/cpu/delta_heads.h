// Delta heads: what a call of delta_rule is made of, one value head of one sequence at a time. Each depends on itself
// alone, so they may be computed in any order.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

struct DeltaHead {
  std::int64_t begin = 0;  // token rows [begin, end)
  std::int64_t end = 0;
  std::int64_t head = 0;      // of the values
  std::int64_t key_head = 0;  // of q and k
  float* state = nullptr;     // [key_width, value_width], zeros where the sequence begins
};

// Checks the shapes and calls work(args, head) for each.
void each_delta_head(ThreadPool& pool, const DeltaRuleArgs& args,
                     void (*work)(const DeltaRuleArgs& args, const DeltaHead& head));

}  // namespace octavo::cpu
