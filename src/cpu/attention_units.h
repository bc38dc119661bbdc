// AttentionUnits: a step's attention cut into units for the vector paths (attention_tile.h). Few rows over a long cache
// are cut into runs of spans, whose partial results are merged afterwards; a block of many rows takes all its spans
// itself. The results of a span do not depend on the run it is in, so runs are as long as the threads allow.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops.h"

namespace octavo::cpu {

struct PlannedUnit {
  std::int32_t seq = 0;
  std::int32_t first_row = 0;  // of the step's token rows
  std::int32_t tokens = 0;
  std::int32_t kv_head = 0;
  std::int32_t first_head = 0;  // query heads
  std::int32_t heads = 0;
  std::int64_t position = 0;  // of the first row
  std::int64_t first_span = 0;
  std::int64_t last_span = 0;
  std::int64_t partial = -1;  // row of the partial results where the unit's begin, span after span; -1: none
};

class AttentionUnits {
 public:
  void make(const PlanAttentionArgs& args, int num_threads);

  const std::vector<PlannedUnit>& units() const { return units_; }    // the costliest first
  const std::vector<PlannedUnit>& merges() const { return merges_; }  // what units with partial results belong to
  std::int64_t partial_rows() const { return partial_rows_; }

 private:
  void add(PlannedUnit block, bool whole);
  void cut_merges(int num_threads);

  std::vector<PlannedUnit> units_;
  std::vector<PlannedUnit> merges_;
  std::int64_t partial_rows_ = 0;
};

}  // namespace octavo::cpu
