#include "text/long_merge.h"

#include <gtest/gtest.h>

#include <random>

namespace octavo {
namespace {

// The rule itself: lowest rank first, of those the leftmost, one at a time.
std::vector<std::int32_t> one_at_a_time(const MergeTable& merges, std::vector<std::int32_t> tokens) {
  while (true) {
    MergeTable::Found best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges.find(tokens[i], tokens[i + 1]);
      if (found.rank < best.rank) best = found, at = i;
    }
    if (best.rank == MergeTable::kNever) return tokens;
    tokens[at] = best.merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Merges in any order: a later one may have a lower rank than what it is made of, and ranks may be equal.
TEST(LongMerge, EqualsTheRuleOnRandomTables) {
  std::mt19937 random(3);
  LongMerge long_merge;
  for (int round = 0; round < 400; ++round) {
    std::vector<Merge> table;
    std::int32_t next = 3;
    for (int i = 0; i < 25; ++i)
      table.push_back({static_cast<std::int32_t>(random() % next), static_cast<std::int32_t>(random() % next), next++,
                       static_cast<std::uint32_t>(random() % (round % 2 == 0 ? 6 : 1000))});
    const MergeTable merges(table);
    std::vector<std::int32_t> tokens(1 + random() % 120);
    for (auto& token : tokens) token = static_cast<std::int32_t>(random() % (1 + round % 3));
    const auto want = one_at_a_time(merges, tokens);
    std::vector<std::int32_t> got;
    long_merge.run(merges, tokens.data(), tokens.size(), got);
    ASSERT_EQ(got, want) << "round " << round;
  }
}

TEST(MergeTable, TheLastOfEqualPairsCounts) {
  const MergeTable merges({{0, 1, 2, 0}, {0, 1, 3, 1}});
  EXPECT_EQ(merges.find(0, 1).merged, 3);
  EXPECT_EQ(merges.find(1, 0).rank, MergeTable::kNever);
  EXPECT_EQ(MergeTable({}).find(0, 0).rank, MergeTable::kNever);
}

}  // namespace
}  // namespace octavo
