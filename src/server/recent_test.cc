#include "server/recent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace octavo {
namespace {

Recent::Clock::time_point at_seconds(double seconds) {
  return Recent::Clock::time_point(
      std::chrono::duration_cast<Recent::Clock::duration>(std::chrono::duration<double>(seconds)));
}

OrderedJson samples_of(const Recent& recent) {
  const OrderedJson json = OrderedJson::parse(recent.text());
  EXPECT_EQ(json["step_seconds"], 5);
  return json["samples"];
}

TEST(DurationSpread, QuantilesAreWithinFivePercentOfSortedValues) {
  std::mt19937_64 random(7);
  for (const double middle : {0.0004, 0.02, 1.5, 200.0}) {
    std::lognormal_distribution<double> durations(std::log(middle), 0.8);
    DurationSpread spread;
    std::vector<double> values(2001);
    for (double& value : values) spread.observe(value = durations(random));
    std::sort(values.begin(), values.end());
    EXPECT_NEAR(*spread.quantile(0.5) / values[1000], 1, 0.05);
    EXPECT_NEAR(*spread.quantile(0.99) / values[1980], 1, 0.05);
  }
}

TEST(DurationSpread, TakesWhateverAClockSays) {
  DurationSpread spread;
  EXPECT_FALSE(spread.quantile(0.5));
  for (const double odd : {0.0, -1.0, 1e9}) spread.observe(odd);
  EXPECT_GT(*spread.quantile(0.99), 1000);
  EXPECT_LT(*spread.quantile(0.5), 2e-5);
  spread.clear();
  EXPECT_FALSE(spread.quantile(0.5));
}

TEST(Recent, OneSampleAStepWithRatesOfThatStep) {
  Recent recent(at_seconds(100));
  EngineStats stats;
  stats.running = 3;
  stats.pages_total = 200;
  stats.pages_held = 50;
  stats.generated_tokens = 400;
  stats.prompt_tokens = 1000;
  stats.cached_prompt_tokens = 200;
  for (int i = 0; i < 99; ++i) recent.next_token(0.02);
  recent.next_token(0.5);
  recent.first_token(0.3);
  recent.tick(at_seconds(104.9), stats, 2);
  EXPECT_EQ(samples_of(recent).size(), 0u);
  recent.tick(at_seconds(105), stats, 2);
  const OrderedJson row = samples_of(recent).at(0);
  EXPECT_EQ(row["running"], 3);
  EXPECT_EQ(row["waiting"], 2);
  EXPECT_DOUBLE_EQ(row["kv_cache_usage"], 0.25);
  EXPECT_DOUBLE_EQ(row["generated_tokens_per_second"], 80);
  EXPECT_DOUBLE_EQ(row["computed_prompt_tokens_per_second"], 160);
  EXPECT_NEAR(row["inter_token_latency"]["p50"], 0.02, 0.001);
  EXPECT_NEAR(row["inter_token_latency"]["p99"], 0.02, 0.001);
  EXPECT_NEAR(row["time_to_first_token"]["p99"], 0.3, 0.015);
}

TEST(Recent, AQuietStepHasNoDurationsAndOldStepsAreForgotten) {
  Recent recent(at_seconds(-5));
  EngineStats stats;
  recent.first_token(0.3);
  for (int i = 0; i <= 400; ++i) recent.tick(at_seconds(5.0 * i), stats, i);
  const OrderedJson samples = samples_of(recent);
  ASSERT_EQ(samples.size(), Recent::kSteps);
  EXPECT_TRUE(samples.back()["time_to_first_token"].is_null());
  EXPECT_TRUE(samples.back()["inter_token_latency"].is_null());
  EXPECT_EQ(samples.back()["waiting"], 400);
  EXPECT_EQ(samples.front()["waiting"], 221);
}

}  // namespace
}  // namespace octavo
