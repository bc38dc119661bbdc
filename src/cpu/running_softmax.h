// The softmax of the plain attentions, in double: keys join one after the other.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ops/ops.h"

namespace octavo::cpu {

// The softmax of one query row and head so far, scaled by exp(-max).
struct Running {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
  std::vector<double> values;

  void add(double score, const double* value) {
    if (score > max) {
      const double factor = std::exp(max - score);
      sum *= factor;
      for (double& v : values) v *= factor;
      max = score;
    }
    const double p = std::exp(score - max);
    sum += p;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += p * value[i];
  }
};

// Of a query and a key, by the rule.
inline double score_of(const AttentionRule& rule, const double* q, const double* k, int width) {
  double sums[4] = {};
  int i = 0;
  for (; i + 4 <= width; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += q[i + lane] * k[i + lane];
  for (; i < width; ++i) sums[0] += q[i] * k[i];
  const double score = rule.scale * (sums[0] + sums[1] + sums[2] + sums[3]);
  return rule.soft_cap > 0 ? rule.soft_cap * std::tanh(score / rule.soft_cap) : score;
}

}  // namespace octavo::cpu
