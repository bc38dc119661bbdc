#include "cpu/attention_units.h"

#include <algorithm>

#include "cpu/attention_tile.h"
#include "cpu/page_layout.h"

namespace octavo::cpu {

namespace {

constexpr std::int32_t kMaxSplitRows =
    32;  // rows (tokens x heads): with more, partial results cost more than they help

constexpr std::int64_t kUnitsOfThread = 12;  // of those that a step is cut into: the last ones end at different times
constexpr std::int64_t kMaxUnitSpans = 8;

std::int64_t spans_of(const PlannedUnit& unit) { return unit.last_span - unit.first_span + 1; }
std::int64_t cost(const PlannedUnit& unit) { return unit.tokens * unit.heads * spans_of(unit); }

}  // namespace

void AttentionUnits::make(const PlanAttentionArgs& args, int num_threads) {
  const AttentionShape& shape = args.shape;
  const auto* query_start = args.batch.query_start.data<std::int32_t>();
  const auto* context = args.batch.context.data<std::int32_t>();
  const std::int32_t kv_heads = shape.format.segments[0].heads;
  const std::int32_t group = shape.q_heads / kv_heads;
  const bool latent = is_latent(shape.format);
  const std::int32_t width = std::max(shape.format.segments[0].width, shape.format.segments[1].width);
  const std::int32_t max_rows = latent ? kLatentRows : std::clamp(kUnitNumbers / width, 1, kUnitRows);
  const std::int32_t heads = std::min(group, max_rows);
  const std::int32_t tokens = max_rows / heads;
  units_.clear();
  merges_.clear();
  partial_rows_ = 0;
  for (std::int32_t seq = 0; seq < args.batch.num_seqs; ++seq) {
    // Any unit of a latent cache has few rows: those of chunks keep all spans, as their partial results would be many.
    const bool whole = latent && query_start[seq + 1] - query_start[seq] > tokens;
    for (std::int32_t row = query_start[seq]; row < query_start[seq + 1]; row += tokens) {
      PlannedUnit block;
      block.seq = seq;
      block.first_row = row;
      block.tokens = std::min(tokens, query_start[seq + 1] - row);
      block.position = context[seq] - (query_start[seq + 1] - row);
      const std::int64_t oldest = shape.window == 0 ? 0 : std::max<std::int64_t>(0, block.position - shape.window + 1);
      block.first_span = oldest / kSpanKeys;
      block.last_span = (block.position + block.tokens - 1) / kSpanKeys;
      for (block.kv_head = 0; block.kv_head < kv_heads; ++block.kv_head)
        for (std::int32_t head = 0; head < group; head += heads) {
          block.first_head = block.kv_head * group + head;
          block.heads = std::min(heads, group - head);
          add(block, whole);
        }
    }
  }
  cut_merges(num_threads);
  std::stable_sort(units_.begin(), units_.end(),
                   [](const PlannedUnit& a, const PlannedUnit& b) { return cost(a) > cost(b); });
}

void AttentionUnits::add(PlannedUnit block, bool whole) {
  const std::int64_t rows = std::int64_t{block.tokens} * block.heads;
  if (whole || block.first_span == block.last_span || rows > kMaxSplitRows) {
    units_.push_back(block);
    return;
  }
  block.partial = partial_rows_;
  partial_rows_ += rows * spans_of(block);
  merges_.push_back(block);
}

void AttentionUnits::cut_merges(int num_threads) {
  std::int64_t spans = 0;
  for (const PlannedUnit& block : merges_) spans += spans_of(block);
  const std::int64_t run = std::clamp<std::int64_t>(spans / (kUnitsOfThread * num_threads), 1, kMaxUnitSpans);
  for (const PlannedUnit& block : merges_)
    for (std::int64_t span = block.first_span; span <= block.last_span; span += run) {
      PlannedUnit& unit = units_.emplace_back(block);
      unit.first_span = span;
      unit.last_span = std::min(span + run - 1, block.last_span);
      unit.partial += (span - block.first_span) * block.tokens * block.heads;
    }
}

}  // namespace octavo::cpu
