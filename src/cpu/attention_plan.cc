#include "cpu/attention_plan.h"

#include <algorithm>

namespace octavo::cpu {

namespace {
constexpr std::int32_t kRowsOfPiece = 16;  // rows that share one reading of K and V
}

void CpuAttentionPlan::make(const PlanAttentionArgs& args, int num_threads) {
  units_.make(args, num_threads);
  const BatchView& batch = args.batch;
  const auto* query_start = batch.query_start.data<std::int32_t>();
  const auto* context = batch.context.data<std::int32_t>();
  kv_heads_ = args.shape.format.segments[0].heads;
  pieces_.clear();
  for (std::int32_t seq = 0; seq < batch.num_seqs; ++seq)
    for (std::int32_t row = query_start[seq]; row < query_start[seq + 1]; row += kRowsOfPiece)
      for (std::int32_t head = 0; head < kv_heads_; ++head)
        pieces_.push_back({seq, row, std::min(kRowsOfPiece, query_start[seq + 1] - row), head});
  const auto cost = [&](const AttentionPiece& piece) { return std::int64_t{piece.num_rows} * context[piece.seq]; };
  std::stable_sort(pieces_.begin(), pieces_.end(),
                   [&](const AttentionPiece& a, const AttentionPiece& b) { return cost(a) > cost(b); });
}

}  // namespace octavo::cpu
