#include "client/bench_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

TEST(BenchLoad, ArrivalsHaveTheRateAndTheSpreadOfAGammaDistribution) {
  for (const double shape : {0.25, 1.0, 4.0}) {
    std::mt19937_64 random(7);
    constexpr int kNum = 40'000;
    const auto arrivals = plan_arrivals(kNum, 8.0, shape, random);
    ASSERT_EQ(std::ssize(arrivals), kNum);
    EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
    EXPECT_NEAR(arrivals.back(), kNum / 8.0, 1e-6);
    double before = 0, square = 0;
    for (const double arrival : arrivals) {
      square += (arrival - before) * (arrival - before);
      before = arrival;
    }
    // Of a gamma distribution: variance / mean^2 = 1 / shape.
    const double relative_variance = square / kNum * 64.0 - 1;
    EXPECT_NEAR(relative_variance * shape, 1, 0.06) << shape;
  }
}

TEST(BenchLoad, LengthsStayInTheirRangeAndTheSeedDecides) {
  LoadOptions options{.num_prompts = 500, .input_len = 20, .output_len = 3, .range_ratio = 0.5, .seed = 3};
  const auto calls = plan_load(options, 50);
  int least = 1000, most = 0;
  for (const PlannedCall& call : calls) {
    least = std::min(least, static_cast<int>(call.ids.size()));
    most = std::max(most, static_cast<int>(call.ids.size()));
    EXPECT_GE(call.output_len, 1);  // floor(1.5)
    EXPECT_LE(call.output_len, 5);  // ceil(4.5)
    EXPECT_EQ(call.arrival_seconds, 0);
    for (const std::int32_t id : call.ids) EXPECT_TRUE(id >= 0 && id < 50);
  }
  EXPECT_EQ(least, 10);
  EXPECT_EQ(most, 30);
  EXPECT_EQ(plan_load(options, 50)[17].ids, calls[17].ids);
  options.seed = 4;
  EXPECT_NE(plan_load(options, 50)[17].ids, calls[17].ids);
  options.range_ratio = 0;
  options.prefix_len = 6;
  const auto fixed = plan_load(options, 50);
  EXPECT_EQ(fixed[0].ids.size(), 26u);
  EXPECT_TRUE(std::equal(fixed[0].ids.begin(), fixed[0].ids.begin() + 6, fixed[9].ids.begin()));
}

TEST(BenchLoad, WordsAreManyAndDifferent) {
  auto words = load_words();
  EXPECT_GE(words.size(), 200u);
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

}  // namespace
}  // namespace octavo
