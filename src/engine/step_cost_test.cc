#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace octavo {
namespace {

StepLoad load_of(int decodes, int context, int first, int tokens) {
  StepLoad load;
  for (int i = 0; i < decodes; ++i) load.add_decode(context);
  if (tokens > 0) load.add_prompt(first, tokens);
  return load;
}

// A machine: 5 ms a step, 3 ms a decode and 0.5 for each thousand of its context, 2 ms a token, 0.1 each 1,000 pairs.
double true_milliseconds(int decodes, int context, int first, int tokens) {
  double pairs = 0;
  for (int i = 0; i < tokens; ++i) pairs += first + i + 1;
  return 5 + decodes * (3 + 0.5 * context / 1000) + 2 * tokens + 0.1 * pairs / 1000;
}

TEST(StepCost, PairsAreOfATokenAndThoseUpToIt) {
  StepLoad load;
  load.add_prompt(10, 3);  // 11 + 12 + 13
  EXPECT_EQ(load.prompt_pairs, 36);
  EXPECT_EQ(load.prompt_tokens, 3);
}

TEST(StepCost, LearnsAMachine) {
  std::mt19937 random(1);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  StepCost cost;
  for (int i = 0; i < 200; ++i) {
    const int decodes = pick(0, 8), context = pick(1, 8000), first = pick(0, 8000), tokens = pick(2, 200);
    cost.observe(load_of(decodes, context, first, tokens), true_milliseconds(decodes, context, first, tokens));
  }
  for (int i = 0; i < 200; ++i) {
    const int decodes = pick(0, 8), context = pick(1, 8000), first = pick(0, 8000), tokens = pick(2, 200);
    const double wanted = true_milliseconds(decodes, context, first, tokens);
    EXPECT_NEAR(cost.milliseconds(load_of(decodes, context, first, tokens)), wanted, 0.01 * wanted);
  }
}

TEST(StepCost, FollowsAMachineThatSlowsDown) {
  StepCost cost;
  for (int i = 0; i < 900; ++i) {
    const int tokens = 10 + i % 50;
    cost.observe(load_of(4, 100, 0, tokens), true_milliseconds(4, 100, 0, tokens) * (i < 300 ? 1 : 3));
  }
  EXPECT_NEAR(cost.milliseconds(load_of(4, 100, 0, 30)), 3 * true_milliseconds(4, 100, 0, 30), 5);
}

TEST(StepCost, FewTokensAreTriedFirstAndThenTwiceAsMany) {
  StepCost cost;
  EXPECT_EQ(cost.most_tokens({}, 0, 1000, 1e9), 16);
  EXPECT_EQ(cost.most_tokens({}, 0, 7, 1e9), 7);
  cost.observe(load_of(1, 1, 0, 16), 20);
  EXPECT_EQ(cost.most_tokens({}, 0, 1000, 1e9), 32);
  EXPECT_EQ(cost.most_tokens(load_of(0, 0, 0, 30), 30, 1000, 1e9), 2) << "beside 30 of another prompt";
}

TEST(StepCost, WhatFitsIsTheMostThatFits) {
  StepCost cost;
  for (int i = 0; i < 400; ++i) {
    const int decodes = i % 5, first = i * 37 % 8000, tokens = 2 + i * 13 % 90;
    cost.observe(load_of(decodes, 500, first, tokens), true_milliseconds(decodes, 500, first, tokens));
  }
  for (const int first : {0, 1000, 7000}) {
    int most = 0;
    while (true_milliseconds(4, 500, first, most + 1) <= 100) ++most;
    EXPECT_NEAR(cost.most_tokens(load_of(4, 500, 0, 0), first, 1000, 100), most, 1) << first;
  }
  EXPECT_EQ(cost.most_tokens(load_of(40, 500, 0, 0), 0, 1000, 100), 0) << "the decodes alone take longer";
}

}  // namespace
}  // namespace octavo
