#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace octavo {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Sampler, SettingsArriveInTheRow) {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_p = 0.9f;
  params.min_p = 0.1f;
  params.top_k = -1;
  SampleBatch batch;
  Sampler(params, 42, Ids{1, 2}, {}).append_row(batch, 17, 0);
  ASSERT_EQ(batch.rows.size(), 1u);
  EXPECT_EQ(batch.rows[0].temperature, 0.7f);
  EXPECT_EQ(batch.rows[0].top_p, 0.9f);
  EXPECT_EQ(batch.rows[0].min_p, 0.1f);
  EXPECT_EQ(batch.rows[0].top_k, 0);
  EXPECT_EQ(batch.rows[0].seed, 42u);
  EXPECT_EQ(batch.rows[0].position, 17u);
  EXPECT_TRUE(batch.seen_ids.empty());
}

TEST(Sampler, ATinyTemperatureIsGreedy) {
  SamplingParams params;
  params.temperature = 1e-6f;
  SampleBatch batch;
  Sampler(params, 0, Ids{1}, {}).append_row(batch, 1, 0);
  EXPECT_EQ(batch.rows[0].temperature, 0.0f);
}

TEST(Sampler, StopTokensAreBannedUntilMinTokens) {
  SamplingParams params;
  params.min_tokens = 2;
  params.logit_bias = {{5, 1.5f}};
  const Sampler sampler(params, 0, Ids{1}, {7, 9});
  SampleBatch batch;
  sampler.append_row(batch, 1, 0);
  sampler.append_row(batch, 2, 1);
  sampler.append_row(batch, 3, 2);
  EXPECT_EQ(batch.bias_ids, (Ids{5, 7, 9, 5, 7, 9, 5}));
  EXPECT_TRUE(std::isinf(batch.bias_values[1]) && batch.bias_values[1] < 0);
  EXPECT_EQ(batch.rows[1].bias_begin, 3);
  EXPECT_EQ(batch.rows[1].bias_end, 6);
  EXPECT_EQ(batch.rows[2].bias_begin, 6);
  EXPECT_EQ(batch.rows[2].bias_end, 7);
}

TEST(Sampler, OnlyAllowedTokensAreNamedWithTheirBiases) {
  SamplingParams params;
  params.allowed_token_ids = {9, 4, 9, 7};
  params.logit_bias = {{4, 1.5f}, {5, 3.0f}};
  params.min_tokens = 1;
  const Sampler sampler(params, 0, Ids{1}, {7});
  SampleBatch batch;
  sampler.append_row(batch, 1, 0);
  EXPECT_TRUE(batch.rows[0].only_biased);
  EXPECT_EQ(batch.bias_ids, (Ids{4, 9})) << "7 ends answers, and it is too early; 5 is not allowed";
  EXPECT_EQ(batch.bias_values, (std::vector<float>{1.5f, 0.0f}));
  params.allowed_token_ids = {7};
  batch = {};
  Sampler(params, 0, Ids{1}, {7}).append_row(batch, 1, 0);
  EXPECT_EQ(batch.bias_ids, Ids{7}) << "what is allowed goes before what is banned";
}

TEST(Sampler, BadWordsAreBannedBehindTheirBeginning) {
  SamplingParams params;
  params.bad_words = {{5}, {6, 7}, {8, 8, 9}};
  Sampler sampler(params, 0, Ids{6, 8, 8}, {});
  EXPECT_TRUE(sampler.needs_history());
  std::vector<Ids> banned;
  for (const std::int32_t token : {1, 6, 8, 8, 8, 9, -1}) {
    SampleBatch batch;
    sampler.append_row(batch, 3, static_cast<int>(banned.size()));
    EXPECT_FALSE(batch.rows[0].only_biased);
    for (const float value : batch.bias_values) EXPECT_TRUE(std::isinf(value) && value < 0);
    banned.push_back(batch.bias_ids);
    if (token >= 0) sampler.accept(token);
  }
  EXPECT_EQ(banned, (std::vector<Ids>{{5}, {5}, {5, 7}, {5}, {5, 9}, {5, 9}, {5}})) << "prompts begin no word";
}

TEST(Sampler, ReasoningBeyondItsBudgetLeavesOnlyItsEnd) {
  SamplingParams params;
  params.reasoning = {.begin = {5}, .end = {6}, .tokens = 1, .open = true};
  params.logit_bias = {{8, 1.0f}};
  params.allowed_token_ids = {8, 9};
  Sampler sampler(params, 0, Ids{1}, {});
  EXPECT_TRUE(sampler.needs_history());
  SampleBatch batch;
  sampler.append_row(batch, 1, 0);
  sampler.accept(9);
  sampler.append_row(batch, 2, 1);
  sampler.accept(6);
  sampler.append_row(batch, 3, 2);
  EXPECT_EQ(batch.bias_ids, (Ids{8, 9, 6, 8, 9}));
  EXPECT_TRUE(batch.rows[1].only_biased);
  EXPECT_EQ(batch.rows[1].bias_begin, 2);
  EXPECT_EQ(batch.rows[1].bias_end, 3);
}

TEST(Sampler, PenaltiesCountThePromptAsSeenAndTheOutputByTimes) {
  SamplingParams params;
  params.frequency_penalty = 1;
  Sampler sampler(params, 0, Ids{3, 4, 3}, {});
  sampler.accept(4);
  sampler.accept(6);
  sampler.accept(6);
  SampleBatch batch;
  sampler.append_row(batch, 6, 3);
  EXPECT_EQ(batch.seen_ids, (Ids{3, 4, 6}));
  EXPECT_EQ(batch.seen_counts, (Ids{0, 1, 2}));
}

TEST(Sampler, DrawnSeedsDiffer) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t engine = 0; engine < 20; ++engine)
    for (std::uint64_t request = 0; request < 200; ++request) seeds.insert(drawn_seed(engine, request));
  EXPECT_EQ(seeds.size(), 4000u);
}

}  // namespace
}  // namespace octavo
