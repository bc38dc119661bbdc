#include "checkpoint/shard.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(Shard, RanksShareUnits) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto range = cut_range(512, 64, {rank, 4}, false);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->begin, rank * 128);
    EXPECT_EQ(range->count, 128);
  }
  EXPECT_EQ(cut_range(512, 1, {0, 1}, false)->count, 512);
}

TEST(Shard, FewerUnitsThanRanksAreRepeated) {
  for (int rank = 0; rank < 8; ++rank) {
    const auto range = cut_range(128, 64, {rank, 8}, true);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->begin, rank / 4 * 64);
    EXPECT_EQ(range->count, 64);
  }
  EXPECT_FALSE(cut_range(128, 64, {0, 8}, false)) << "a repeated column would be summed twice";
}

TEST(Shard, RefusesWhatDoesNotDivide) {
  const auto uneven = cut_range(3 * 64, 64, {0, 2}, true);
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().message(), "192 in units of 64 (3 units) cannot be shared evenly by 2 ranks");
  EXPECT_FALSE(cut_range(100, 64, {0, 2}, true));
  EXPECT_TRUE(check_grain({128, 128}, 256, 128));
  EXPECT_TRUE(check_grain({128, 72}, 200, 128)) << "the last block is partial";
  EXPECT_FALSE(check_grain({64, 64}, 256, 128));
  EXPECT_FALSE(check_grain({0, 64}, 256, 128));
}

TEST(Shard, PairedRowsGoBackToHalves) {
  // One head of 6: the file has rows 0 3 1 4 2 5 of the model.
  const std::int64_t expected[] = {0, 2, 4, 1, 3, 5};
  for (std::int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(file_row(row, 6), expected[row]);
    EXPECT_EQ(file_row(row + 6, 6), expected[row] + 6);
    EXPECT_EQ(file_row(row, 0), row);
  }
}

}  // namespace
}  // namespace octavo
