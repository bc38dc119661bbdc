#include "tool/likelihood.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace octavo {
namespace {

std::vector<float> random_logits(std::mt19937& random, int vocab, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits;
  for (int i = 0; i < vocab; ++i) logits.push_back(normal(random));
  return logits;
}

// The definition in 64 bits of mantissa, whose cancellation is 2,000 times smaller than double's.
long double direct_kl(const std::vector<float>& a, const std::vector<float>& b) {
  long double a_sum = 0, b_sum = 0, kl = 0;
  for (const float x : a) a_sum += std::exp(static_cast<long double>(x));
  for (const float x : b) b_sum += std::exp(static_cast<long double>(x));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const long double p = std::exp(static_cast<long double>(a[i])) / a_sum;
    kl += p * ((static_cast<long double>(a[i]) - b[i]) - std::log(a_sum / b_sum));
  }
  return kl;
}

TEST(Likelihood, IsLogSoftmax) {
  const std::vector<float> logits = {1.0f, 2.0f, 0.5f, -3.0f};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(0.5) + std::exp(-3.0);
  for (int id = 0; id < 4; ++id)
    EXPECT_NEAR(negative_log_likelihood(logits, id), std::log(sum) - logits[static_cast<std::size_t>(id)], 1e-14);
  EXPECT_NEAR(negative_log_likelihood(std::vector<float>{3e38f, 3e38f}, 1), std::log(2.0), 1e-14);
  EXPECT_TRUE(std::isnan(negative_log_likelihood(std::vector<float>{0, NAN}, 0)));
}

TEST(Likelihood, DivergenceAgreesWithTheDefinitionInMoreBits) {
  std::mt19937 random(5);
  for (const float distance : {3.0f, 0.3f, 1e-2f, 1e-3f}) {
    const std::vector<float> reference = random_logits(random, 4000, 3);
    std::vector<float> other = random_logits(random, 4000, distance);
    for (std::size_t i = 0; i < other.size(); ++i) other[i] += reference[i];
    const auto direct = static_cast<double>(direct_kl(reference, other));
    EXPECT_NEAR(divergence(reference, other).kl, direct, 1e-11 * direct + 1e-17) << distance;
  }
}

// Two tokens with logits (0, 0) and (h, -h): log cosh h = h^2/2 - h^4/12 + h^6/45, here down to 1e-19.
TEST(Likelihood, TinyDivergenceDoesNotCancel) {
  for (const float h : {0x1p-4f, 0x1p-10f, 0x1p-20f, 0x1p-30f}) {
    const double x = h;
    const double exact = x * x / 2 - x * x * x * x / 12 + x * x * x * x * x * x / 45;
    const double kl = divergence(std::vector<float>{0, 0}, std::vector<float>{h, -h}).kl;
    EXPECT_NEAR(kl / exact, 1, x > 0.01 ? 1e-8 : 1e-12) << h;
  }
}

TEST(Likelihood, LargeDivergenceIsExactToo) {
  // p = (1, tiny), q = (tiny, 1): log p/q = 80 for the token that p takes.
  EXPECT_NEAR(divergence(std::vector<float>{40, -40}, std::vector<float>{-40, 40}).kl, 80, 1e-12);
  EXPECT_NEAR(divergence(std::vector<float>{1000, -1000}, std::vector<float>{-1000, 1000}).kl, 2000, 1e-9);
  EXPECT_TRUE(std::isnan(divergence(std::vector<float>{0, INFINITY}, std::vector<float>{0, 0}).kl));
}

TEST(Likelihood, ShiftedLogitsAreTheSameDistribution) {
  std::mt19937 random(6);
  const std::vector<float> logits = random_logits(random, 1000, 2);
  EXPECT_EQ(divergence(logits, logits).kl, 0);
  EXPECT_TRUE(divergence(logits, logits).same_best);
  EXPECT_TRUE(divergence(std::vector<float>{1, 3, 2}, std::vector<float>{0, 5, 4}).same_best);
  EXPECT_FALSE(divergence(std::vector<float>{1, 3, 2}, std::vector<float>{0, 4, 5}).same_best);
  EXPECT_LT(divergence(std::vector<float>{1, 3, 2}, std::vector<float>{65, 67, 66}).kl, 1e-27);
}

}  // namespace
}  // namespace octavo
