#include "tool/likelihood.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace octavo {
namespace {

constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

bool all_finite(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

// The log of the sum of exp in two parts: beside a large greatest logit the rest would be lost.
struct LogSum {
  double most = 0;
  double rest = 0;
};
LogSum log_sum(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  return {most, std::log(sum)};
}

// exp(-d) - 1 + d, which is never negative: near 0 its first terms would cancel, so the rest of the series is summed.
double excess(double d) {
  if (std::abs(d) > 0.05) return std::expm1(-d) + d;
  return d * d / 2 * (1 - d / 3 * (1 - d / 4 * (1 - d / 5 * (1 - d / 6 * (1 - d / 7 * (1 - d / 8))))));
}

}  // namespace

double negative_log_likelihood(std::span<const float> logits, std::int32_t id) {
  check(id >= 0 && id < std::ssize(logits), "the token is of this vocabulary");
  if (!all_finite(logits)) return kNotFinite;
  const LogSum sum = log_sum(logits);
  return (sum.most - logits[static_cast<std::size_t>(id)]) + sum.rest;
}

// sum p log(p / q) has terms of both signs that nearly sum to zero when q is near p. Since p and q both sum to 1, it is
// also the sum of p (q / p - 1 + log(p / q)), whose terms are all positive.
Divergence divergence(std::span<const float> reference, std::span<const float> other) {
  check(!reference.empty() && reference.size() == other.size(), "two rows of one vocabulary");
  if (!all_finite(reference) || !all_finite(other)) return {kNotFinite, false};
  const LogSum p = log_sum(reference);
  const LogSum q = log_sum(other);
  Divergence result;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double log_p = (reference[i] - p.most) - p.rest;
    const double d = (static_cast<double>(reference[i]) - other[i]) - (p.most - q.most) - (p.rest - q.rest);
    // exp(log_p) excess(d), written so that a token that q likes and p does not neither overflows nor disappears.
    result.kl += d > -30 ? std::exp(log_p) * excess(d) : std::exp(log_p - d) + std::exp(log_p) * (d - 1);
  }
  const auto best = [](std::span<const float> row) { return std::max_element(row.begin(), row.end()) - row.begin(); };
  result.same_best = best(reference) == best(other);
  return result;
}

}  // namespace octavo
