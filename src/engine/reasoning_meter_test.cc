#include "engine/reasoning_meter.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

constexpr std::int32_t kBegin = 1, kEnd = 2, kWord = 9;

// What an answer becomes that would say `wanted`: forced tokens take the places of the model's.
std::vector<std::int32_t> bounded(ReasoningBudget budget, const std::vector<std::int32_t>& wanted) {
  ReasoningMeter meter(std::move(budget));
  std::vector<std::int32_t> said;
  for (const std::int32_t token : wanted) {
    said.push_back(meter.forced().value_or(token));
    meter.accept(said.back());
  }
  return said;
}

TEST(ReasoningMeter, AnEndIsWrittenAfterTheBudget) {
  const std::vector<std::int32_t> endless(8, kWord);
  const auto opened = [&](int tokens) {
    return bounded({.begin = {kBegin}, .end = {kEnd}, .tokens = tokens, .open = true}, endless);
  };
  EXPECT_EQ(opened(0), (std::vector<std::int32_t>{kEnd, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(opened(3), (std::vector<std::int32_t>{9, 9, 9, kEnd, 9, 9, 9, 9}));
  EXPECT_EQ(opened(8), endless);
}

TEST(ReasoningMeter, CountsFromTheMarkerThatTheAnswerWrites) {
  const ReasoningBudget budget{.begin = {kBegin}, .end = {kEnd}, .tokens = 2, .open = false};
  EXPECT_EQ(bounded(budget, {9, 9, 9, kBegin, 9, 9, 9, 9}),
            (std::vector<std::int32_t>{9, 9, 9, kBegin, 9, 9, kEnd, 9}));
  EXPECT_EQ(bounded(budget, {9, 9, 9, 9, 9}), (std::vector<std::int32_t>{9, 9, 9, 9, 9})) << "no reasoning, no bound";
}

TEST(ReasoningMeter, WhatEndsByItselfIsLeftAloneAndSoIsWhatFollows) {
  const ReasoningBudget budget{.begin = {kBegin}, .end = {kEnd}, .tokens = 2, .open = false};
  const std::vector<std::int32_t> said = {kBegin, 9, kEnd, 9, 9, kBegin, 9, 9, 9, 9};
  EXPECT_EQ(bounded(budget, said), said);
}

TEST(ReasoningMeter, AMarkerOfSeveralTokensIsWrittenWholeAndCompletedWhereItHasBegun) {
  const ReasoningBudget budget{.begin = {5, 6}, .end = {7, 7, 8}, .tokens = 3, .open = false};
  EXPECT_EQ(bounded(budget, {5, 5, 6, 9, 9, 9, 9, 9, 9, 9}), (std::vector<std::int32_t>{5, 5, 6, 9, 9, 9, 7, 7, 8, 9}));
  EXPECT_EQ(bounded(budget, {5, 6, 9, 9, 7, 9, 9, 9}), (std::vector<std::int32_t>{5, 6, 9, 9, 7, 7, 8, 9}));
  EXPECT_EQ(bounded(budget, {5, 6, 7, 7, 7, 9, 9}), (std::vector<std::int32_t>{5, 6, 7, 7, 7, 8, 9}));
}

}  // namespace
}  // namespace octavo
