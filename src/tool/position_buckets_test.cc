#include "tool/position_buckets.h"

#include <gtest/gtest.h>

#include "terminal/statistics.h"

namespace octavo {
namespace {

TEST(Statistics, PercentilesAreNumpys) {
  const std::vector<double> values = {4, 1, 3, 2};  // numpy.percentile([1, 2, 3, 4], p)
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 25), 1.75);
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 3.97);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(mean(values), 2.5);
}

TEST(PositionBuckets, EdgesAreWhereTheNamesSay) {
  PositionBuckets buckets;
  for (const int position : {0, 255, 256, 1023, 1024, 2047, 2048, 4095, 4096, 125000})
    buckets.add(position, {position * 1.0, position % 2 == 0});
  const auto summaries = buckets.summaries();
  std::vector<std::string> names;
  for (const auto& summary : summaries) {
    names.push_back(summary.name);
    EXPECT_EQ(summary.positions, summary.name == "all"                                   ? 10
                                 : summary.name == "4k-8k" || summary.name == "64k-128k" ? 1
                                                                                         : 2);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0-255", "256-1k", "1k-2k", "2k-4k", "4k-8k", "64k-128k", "all"}));
  EXPECT_DOUBLE_EQ(summaries[1].mean, 639.5);
  EXPECT_DOUBLE_EQ(summaries[1].max, 1023);
  EXPECT_DOUBLE_EQ(summaries[1].p99, 256 + 0.99 * 767);
  EXPECT_DOUBLE_EQ(summaries[1].same_argmax, 0.5);
  EXPECT_EQ(summaries[1].first, 256);
  EXPECT_EQ(summaries[1].end, 1024);
  EXPECT_DOUBLE_EQ(summaries.back().same_argmax, 0.6);
  EXPECT_EQ(summaries.back().first, 0);
  EXPECT_EQ(summaries.back().end, 131072);
}

TEST(PositionBuckets, NothingGivesNothing) { EXPECT_TRUE(PositionBuckets().summaries().empty()); }

}  // namespace
}  // namespace octavo
