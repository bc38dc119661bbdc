#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

// A NaN logit counts as -inf, as in sample.
float logit_at(const float* logits, std::int64_t i) {
  return std::isnan(logits[i]) ? -std::numeric_limits<float>::infinity() : logits[i];
}

bool better(const float* logits, std::int64_t a, std::int64_t b) {
  const float x = logit_at(logits, a);
  const float y = logit_at(logits, b);
  return x != y ? x > y : a < b;
}

// log of the sum of exponentials.
double log_sum(const float* logits, std::int64_t vocab) {
  float max = logit_at(logits, 0);
  for (std::int64_t i = 1; i < vocab; ++i) max = std::max(max, logit_at(logits, i));
  if (std::isinf(max)) return max;
  double sum = 0.0;
  for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logit_at(logits, i)) - max);
  return max + std::log(sum);
}

float log_prob(const float* logits, std::int64_t i, double total) {
  const double logit = logit_at(logits, i);
  if (logit == total) return 0.0f;  // the only one, or an infinity that takes all
  return std::isinf(logit) ? -std::numeric_limits<float>::infinity() : static_cast<float>(logit - total);
}

void write_top(const LogProbsArgs& args, std::int64_t row, const float* logits, double total) {
  const std::int64_t vocab = args.logits.size(1);
  const std::int64_t top = args.top_ids.size(1);
  std::vector<std::int32_t> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + top, order.end(),
                    [&](std::int32_t a, std::int32_t b) { return better(logits, a, b); });
  for (std::int64_t j = 0; j < top; ++j) {
    const std::int32_t id = order[static_cast<std::size_t>(j)];
    args.top_ids.data<std::int32_t>()[row * top + j] = id;
    args.top_values.data<float>()[row * top + j] = log_prob(logits, id, total);
  }
}

}  // namespace

void log_probs(ThreadPool& pool, const LogProbsArgs& args) {
  const std::int64_t rows = args.logits.size(0);
  const std::int64_t vocab = args.logits.size(1);
  check(args.ids.elements() == rows && args.chosen.elements() == rows && args.rank.elements() == rows,
        "shapes of log_probs");
  check(args.top_ids.empty() || (args.top_ids.size(0) == rows && args.top_ids.size(1) <= vocab &&
                                 args.top_values.elements() == args.top_ids.elements()),
        "more top tokens than the vocabulary has");
  const std::int32_t* ids = ints(args.ids);
  pool.run(rows, [&](std::int64_t row) {
    const auto* logits = reinterpret_cast<const float*>(row_at(args.logits, row));
    check(ids[row] >= 0 && ids[row] < vocab, "a token id beyond the vocabulary");
    const double total = log_sum(logits, vocab);
    std::int32_t rank = 1;
    for (std::int64_t i = 0; i < vocab; ++i) rank += better(logits, i, ids[row]) ? 1 : 0;
    args.chosen.data<float>()[row] = log_prob(logits, ids[row], total);
    args.rank.data<std::int32_t>()[row] = rank;
    if (!args.top_ids.empty() && args.top_ids.size(1) > 0) write_top(args, row, logits, total);
  });
}

}  // namespace octavo::cpu::plain
