#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

std::vector<double> softmax(std::vector<double> x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double& v : x) sum += v = std::exp(v - max);
  for (double& v : x) v /= sum;
  return x;
}

// Indices of the k largest, best first, ties to the lowest.
std::vector<std::int32_t> best_of(const std::vector<double>& x, std::size_t k) {
  std::vector<std::int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const double x_a = x[static_cast<std::size_t>(a)];
    const double x_b = x[static_cast<std::size_t>(b)];
    return x_a != x_b ? x_a > x_b : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), better);
  order.resize(k);
  return order;
}

// Excludes all but the best groups; a group's score is the sum of its two best.
void keep_best_groups(const RouteArgs& args, std::vector<double>& choice) {
  const std::size_t size = choice.size() / static_cast<std::size_t>(args.num_groups);
  std::vector<double> scores;
  for (std::size_t begin = 0; begin < choice.size(); begin += size) {
    const std::vector<double> group(choice.begin() + static_cast<std::ptrdiff_t>(begin),
                                    choice.begin() + static_cast<std::ptrdiff_t>(begin + size));
    double score = 0.0;
    for (const std::int32_t i : best_of(group, std::min<std::size_t>(2, size)))
      score += group[static_cast<std::size_t>(i)];
    scores.push_back(score);
  }
  std::vector<bool> kept(scores.size(), false);
  for (const std::int32_t group : best_of(scores, static_cast<std::size_t>(args.top_groups)))
    kept[static_cast<std::size_t>(group)] = true;
  for (std::size_t i = 0; i < choice.size(); ++i)
    if (!kept[i / size]) choice[i] = kLowest;
}

void route_token(const RouteArgs& args, const float* logits, std::int32_t* ids, float* weights) {
  const auto k = static_cast<std::size_t>(args.ids.size(1));
  std::vector<double> x(logits, logits + args.logits.size(1));
  bool whole = true;
  for (double& v : x)
    if (std::isnan(v)) {
      v = kLowest;  // an order must exist
      whole = false;
    }
  std::vector<double> weighed = x;  // what the chosen are weighed by
  if (args.kind == RouteKind::softmax_all) weighed = softmax(x);
  std::vector<double> choice = x;
  if (args.kind == RouteKind::sigmoid_groups) {
    const float* bias = floats(args.choice_bias);
    for (std::size_t i = 0; i < x.size(); ++i) {
      weighed[i] = 1.0 / (1.0 + std::exp(-x[i]));
      choice[i] = weighed[i] + (bias != nullptr ? bias[i] : 0.0);
    }
    if (args.top_groups < args.num_groups) keep_best_groups(args, choice);
  }
  const std::vector<std::int32_t> chosen = best_of(choice, k);
  std::vector<double> result(k);
  for (std::size_t j = 0; j < k; ++j) result[j] = weighed[static_cast<std::size_t>(chosen[j])];
  double divisor = 1.0;
  if (args.kind == RouteKind::softmax_chosen)
    result = softmax(result);
  else if (args.renormalise)
    divisor = std::accumulate(result.begin(), result.end(), args.kind == RouteKind::sigmoid_groups ? 1e-20 : 0.0);
  for (std::size_t j = 0; j < k; ++j) {
    ids[j] = chosen[j];
    weights[j] = whole ? static_cast<float>(result[j] / divisor * args.scaling) : kNoNumber;
  }
}

}  // namespace

void route(ThreadPool& pool, const RouteArgs& args) {
  const std::int64_t experts = args.logits.size(1);
  const std::int64_t k = args.ids.size(1);
  check(k >= 1 && k <= experts, "more experts to choose than there are");
  check(args.num_groups >= 1 && experts % args.num_groups == 0 && args.top_groups >= 1 &&
            args.top_groups <= args.num_groups,
        "groups of experts");
  check(args.ids.size(0) == args.logits.size(0) && args.weights.size(0) == args.logits.size(0) &&
            args.weights.size(1) == k,
        "shapes of route");
  check(args.choice_bias.empty() || args.choice_bias.elements() == experts, "one choice bias an expert");
  auto* ids = args.ids.data<std::int32_t>();
  auto* weights = args.weights.data<float>();
  check(args.ids.contiguous() && args.weights.contiguous(), "results of route are contiguous");
  pool.run(args.logits.size(0), [&](std::int64_t t) {
    route_token(args, reinterpret_cast<const float*>(row_at(args.logits, t)), ids + t * k, weights + t * k);
  });
}

}  // namespace octavo::cpu::plain
