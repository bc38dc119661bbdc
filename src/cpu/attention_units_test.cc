// The cut of a step's attention: every query row and head meets every span of its cache that it sees exactly once.
#include "cpu/attention_units.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "cpu/attention_tile.h"

namespace octavo::cpu {
namespace {

struct Case {
  int kv_heads = 1, group = 1, width = 64, window = 0;
  std::vector<std::int32_t> lengths, contexts;  // by sequence
};

class NoPlan : public AttentionPlan {};

AttentionUnits cut(const Case& c, int num_threads = 2) {
  std::vector<std::int32_t> query_start = {0};
  for (const std::int32_t length : c.lengths) query_start.push_back(query_start.back() + length);
  BatchView batch;
  batch.num_seqs = static_cast<std::int32_t>(c.lengths.size());
  batch.query_start = Tensor(query_start.data(), DType::i32, {batch.num_seqs + 1});
  batch.context = Tensor(c.contexts.data(), DType::i32, {batch.num_seqs});
  AttentionShape shape;
  shape.format.num_segments = 2;
  shape.format.segments[0] = {.part = KvPart::key, .heads = c.kv_heads, .width = c.width};
  shape.format.segments[1] = {.part = KvPart::value, .heads = c.kv_heads, .width = c.width};
  shape.q_heads = c.kv_heads * c.group;
  shape.window = c.window;
  NoPlan plan;
  AttentionUnits units;
  units.make({batch, shape, plan}, num_threads);
  return units;
}

void expect_complete(const Case& c, int num_threads) {
  const AttentionUnits units = cut(c, num_threads);
  std::map<std::tuple<int, int, std::int64_t>, int> met;  // row, head, span
  std::set<std::int64_t> partials;
  for (const PlannedUnit& unit : units.units()) {
    const int rows = unit.tokens * unit.heads;
    EXPECT_LE(rows, kUnitRows);
    EXPECT_LE(rows * c.width, kUnitNumbers);
    EXPECT_EQ(unit.first_head / c.group, unit.kv_head);
    EXPECT_EQ((unit.first_head + unit.heads - 1) / c.group, unit.kv_head);
    for (int t = 0; t < unit.tokens; ++t)
      for (int h = 0; h < unit.heads; ++h)
        for (std::int64_t span = unit.first_span; span <= unit.last_span; ++span)
          ++met[{unit.first_row + t, unit.first_head + h, span}];
    if (unit.partial < 0) continue;
    for (std::int64_t row = 0; row < rows * (unit.last_span - unit.first_span + 1); ++row)
      EXPECT_TRUE(partials.insert(unit.partial + row).second) << "two units, one place";
  }
  EXPECT_EQ(static_cast<std::int64_t>(partials.size()), units.partial_rows());
  for (const auto& [place, count] : met) EXPECT_EQ(count, 1);
  int row = 0;
  for (std::size_t seq = 0; seq < c.lengths.size(); ++seq)
    for (int i = 0; i < c.lengths[seq]; ++i, ++row) {
      const std::int64_t position = c.contexts[seq] - c.lengths[seq] + i;
      const std::int64_t oldest = c.window == 0 || position < c.window ? 0 : position - c.window + 1;
      for (int head = 0; head < c.kv_heads * c.group; ++head)
        for (std::int64_t span = oldest / kSpanKeys; span <= position / kSpanKeys; ++span)
          EXPECT_EQ((met[{row, head, span}]), 1) << "row " << row << " head " << head << " span " << span;
    }
}

TEST(AttentionUnits, EveryRowMeetsItsSpansOnce) {
  for (const int num_threads : {1, 2, 64})
    for (const int window : {0, 1, 64, 300}) {
      expect_complete({.kv_heads = 3, .group = 3, .window = window, .lengths = {1, 1, 1}, .contexts = {1, 256, 8000}},
                      num_threads);
      expect_complete(
          {.kv_heads = 2, .group = 16, .width = 256, .window = window, .lengths = {1, 70}, .contexts = {257, 700}},
          num_threads);
      expect_complete({.kv_heads = 1, .group = 128, .width = 512, .window = window, .lengths = {2}, .contexts = {600}},
                      num_threads);
      expect_complete(
          {.kv_heads = 8, .group = 1, .width = 128, .window = window, .lengths = {200, 3}, .contexts = {900, 513}},
          num_threads);
    }
}

TEST(AttentionUnits, LongContextsAreCutIntoFewRunsOfAThread) {
  const Case c{.kv_heads = 3, .group = 3, .lengths = {1}, .contexts = {8192}};
  EXPECT_EQ(cut(c, 2).units().size(), 24u) << "96 spans";
  EXPECT_EQ(cut(c, 64).units().size(), 96u);
}

TEST(AttentionUnits, MergesTakeThePartsInOrder) {
  const AttentionUnits units = cut({.kv_heads = 2, .group = 2, .lengths = {1, 1}, .contexts = {1000, 100}});
  ASSERT_EQ(units.merges().size(), 2u) << "only the long one is split";
  for (const PlannedUnit& merge : units.merges())
    for (const PlannedUnit& unit : units.units()) {
      if (unit.seq != merge.seq || unit.kv_head != merge.kv_head) continue;
      EXPECT_EQ(unit.partial, merge.partial + (unit.first_span - merge.first_span) * merge.tokens * merge.heads);
    }
}

}  // namespace
}  // namespace octavo::cpu
