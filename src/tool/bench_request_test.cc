#include "tool/bench_request.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tool/bench_throughput.h"

namespace octavo {
namespace {

TEST(BenchRequest, IdsAreOfTheVocabularyAndOfTheSeed) {
  const auto ids = random_ids(3, 1000, 50);
  EXPECT_EQ(ids, random_ids(3, 1000, 50));
  EXPECT_NE(ids, random_ids(4, 1000, 50));
  EXPECT_GE(*std::min_element(ids.begin(), ids.end()), 0);
  EXPECT_EQ(*std::max_element(ids.begin(), ids.end()), 49);
}

TEST(BenchRequest, EveryCacheThenItsSkippedLayers) {
  std::vector<CacheVariant> caches(2);
  caches[1] = {"fp8", *parse_kv_cache_dtype("fp8"), {}};
  const auto variants = cache_variants(caches, TransformChoice::none, {"0,-1; sliding_window", "3"});
  std::vector<std::string> names;
  for (const CacheVariant& variant : variants) {
    names.push_back(variant.name);
    EXPECT_EQ(variant.choice.transform, TransformChoice::none);
    EXPECT_EQ(variant.skip_layers.empty(), variant.name.find("skip") == std::string::npos);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"auto", "fp8", "fp8 skip 0,-1", "fp8 skip sliding_window", "fp8 skip 3"}));
  EXPECT_EQ(variants[2].skip_layers, std::vector<std::string>{"0,-1"});
}

TEST(BenchRequest, TheLongestRequestMustFitTheModel) {
  ModelSpec spec;
  spec.max_positions = 100;
  const auto config = bench_config({}, spec, 100);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->max_model_len, 100);
  EXPECT_FALSE(config->prefix_caching);
  EXPECT_NE(bench_config({}, spec, 101).error().message().find("101 tokens are more than the 100"), std::string::npos);
}

TEST(BenchThroughput, LengthsStayInTheirSpread) {
  BenchThroughputOptions options;
  options.num_prompts = 2000;
  options.input_len = 100;
  options.output_len = 10;
  options.range_ratio = 0.25;
  const auto plan = plan_requests(options);
  const auto [short_input, long_input] = std::minmax_element(
      plan.begin(), plan.end(), [](const auto& a, const auto& b) { return a.input_len < b.input_len; });
  EXPECT_EQ(short_input->input_len, 75);
  EXPECT_EQ(long_input->input_len, 125);
  double sum = 0;
  for (const PlannedRequest& request : plan) {
    EXPECT_TRUE(request.output_len >= 7 && request.output_len <= 13);
    sum += request.input_len;
  }
  EXPECT_NEAR(sum / 2000, 100, 1.5);  // 3 sigma of a mean of 2,000 draws from 51 lengths
  options.range_ratio = 0;
  for (const PlannedRequest& request : plan_requests(options)) EXPECT_EQ(request.input_len, 100);
}

}  // namespace
}  // namespace octavo
