#include "engine/cost_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo {
namespace {

TEST(CostModel, FindsAnExactLine) {
  for (const auto& [intercept, slope] : {std::pair{5.0, 0.25}, {0.0, 0.0}, {-3.0, 2.0}, {1000.0, -0.5}}) {
    std::vector<CostPoint> points;
    for (const double context : {256.0, 512.0, 4096.0, 125000.0})
      points.push_back({context, intercept + slope * context});
    const auto fit = fit_cost(points);
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->intercept_ms, intercept, 1e-9);
    EXPECT_NEAR(fit->slope_ms_per_token, slope, 1e-13);
    EXPECT_NEAR(fit->itl_ms(1000), intercept + slope * 1000, 1e-9);
  }
}

// The least squares of these numbers in exact fractions.
TEST(CostModel, AgreesWithFractions) {
  const std::vector<CostPoint> points = {{256, 5.245142},   {1024, 5.307316},  {4096, 5.365671},
                                         {16384, 5.742151}, {65536, 7.235115}, {125000, 9.114335}};
  const auto fit = fit_cost(points);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept_ms, 5.244040656255771, 1e-12);
  EXPECT_NEAR(fit->slope_ms_per_token, 3.083188596330303e-05, 1e-18);
}

TEST(CostModel, NeedsTwoContexts) {
  EXPECT_FALSE(fit_cost({}));
  EXPECT_FALSE(fit_cost(std::vector<CostPoint>{{256, 1}}));
  EXPECT_FALSE(fit_cost(std::vector<CostPoint>{{256, 1}, {256, 2}, {256, 3}}));
}

TEST(CostModel, BreakEvenIsWhereTheOtherStopsCostingMore) {
  const CostModel base{.intercept_ms = 5, .slope_ms_per_token = 0.002};
  EXPECT_DOUBLE_EQ(*break_even_tokens(base, {6, 0.001}), 1000);
  EXPECT_DOUBLE_EQ(*break_even_tokens(base, {4, 0.001}), 0);
  EXPECT_DOUBLE_EQ(*break_even_tokens(base, {5, 0.001}), 0);
  EXPECT_DOUBLE_EQ(*break_even_tokens(base, base), 0);
  EXPECT_FALSE(break_even_tokens(base, {6, 0.002}));   // always dearer
  EXPECT_FALSE(break_even_tokens(base, {6, 0.003}));   // more and more so
  EXPECT_FALSE(break_even_tokens(base, {4, 0.0021}));  // cheaper only at first
}

}  // namespace
}  // namespace octavo
