// CpuAttentionPlan: a step's attention cut into pieces of work, each a block of query rows of one sequence and one KV
// head. The cut depends on the batch, the result of a row does not.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/attention_units.h"
#include "ops/ops.h"

namespace octavo::cpu {

struct AttentionPiece {
  std::int32_t seq = 0;
  std::int32_t first_row = 0;  // of the step's token rows
  std::int32_t num_rows = 0;
  std::int32_t kv_head = 0;
};

class CpuAttentionPlan final : public AttentionPlan {
 public:
  void make(const PlanAttentionArgs& args, int num_threads);
  const std::vector<AttentionPiece>& pieces() const { return pieces_; }  // for the plain path
  const AttentionUnits& units() const { return units_; }                 // for the others
  int kv_heads() const { return kv_heads_; }

 private:
  AttentionUnits units_;
  int kv_heads_ = 0;
  std::vector<AttentionPiece> pieces_;  // the longest contexts first, so that no thread waits for one at the end
};

}  // namespace octavo::cpu
