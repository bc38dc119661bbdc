// route: three ways to choose experts, against a full sort in double; ties go to the lower expert.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct RouteCase {
  RouteKind kind = RouteKind::softmax_all;
  std::int64_t experts = 16;
  std::int64_t k = 4;
  int num_groups = 1;
  int top_groups = 1;
  bool renormalise = true;
  bool biased = false;
  float scaling = 1.0f;
};

std::vector<std::int32_t> sorted_by(const std::vector<double>& x) {
  std::vector<std::int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  return order;
}

void expect_route(const RouteCase& c, const std::vector<double>& logits, const std::vector<float>& bias,
                  std::vector<std::int32_t>& ids, std::vector<double>& weights) {
  std::vector<double> weighed, choice;
  double sum = 0.0;
  for (const double x : logits) sum += std::exp(x);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool sigmoid = c.kind == RouteKind::sigmoid_groups;
    weighed.push_back(sigmoid ? 1.0 / (1.0 + std::exp(-logits[i])) : std::exp(logits[i]) / sum);
    choice.push_back(sigmoid ? weighed[i] + (c.biased ? bias[i] : 0.0) : logits[i]);
  }
  const std::size_t size = logits.size() / static_cast<std::size_t>(c.num_groups);
  std::vector<double> group_scores;
  for (std::size_t g = 0; g < logits.size(); g += size) {
    std::vector<double> group(choice.begin() + static_cast<std::ptrdiff_t>(g),
                              choice.begin() + static_cast<std::ptrdiff_t>(g + size));
    std::sort(group.rbegin(), group.rend());
    group_scores.push_back(group[0] + (size > 1 ? group[1] : 0.0));
  }
  const std::vector<std::int32_t> groups = sorted_by(group_scores);
  for (std::size_t g = static_cast<std::size_t>(c.top_groups); g < groups.size(); ++g)
    for (std::size_t i = 0; i < size; ++i) choice[static_cast<std::size_t>(groups[g]) * size + i] = -1e300;
  const std::vector<std::int32_t> order = sorted_by(choice);
  double chosen = 0.0;
  for (std::int64_t j = 0; j < c.k; ++j)
    chosen += weighed[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])];
  for (std::int64_t j = 0; j < c.k; ++j) {
    ids.push_back(order[static_cast<std::size_t>(j)]);
    const double weight = weighed[static_cast<std::size_t>(ids.back())];
    const bool divided = c.kind == RouteKind::softmax_chosen || c.renormalise;
    weights.push_back((divided ? weight / chosen : weight) * c.scaling);
  }
}

void run_route(const RouteCase& c) {
  Random random(12);
  constexpr std::int64_t kTokens = 40;
  std::vector<float> logits = random.normals(kTokens * c.experts, 2.0f);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i]);  // many ties
  const std::vector<float> bias = random.normals(c.experts, 0.3f);
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
  for (std::int64_t t = 0; t < kTokens; ++t)
    expect_route(c, {logits.begin() + t * c.experts, logits.begin() + (t + 1) * c.experts}, bias, ids, weights);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor got_ids = arena.blank({kTokens, c.k}, DType::i32);
    const Tensor got_weights = arena.blank({kTokens, c.k});
    path.backend->ops().route({.logits = arena.floats(logits, {kTokens, c.experts}),
                               .kind = c.kind,
                               .choice_bias = c.biased ? arena.floats(bias, {c.experts}) : Tensor(),
                               .num_groups = c.num_groups,
                               .top_groups = c.top_groups,
                               .renormalise = c.renormalise,
                               .scaling = c.scaling,
                               .ids = got_ids,
                               .weights = got_weights});
    EXPECT_EQ(arena.read_ints(got_ids), ids);
    expect_close("weights", arena.read(got_weights), weights, c.k, 2e-6);
  });
}

TEST(Route, EveryKind) {
  run_route({});
  run_route({.k = 1});
  run_route({.experts = 128, .k = 8});
  run_route({.renormalise = false, .scaling = 2.5f});
  run_route({.kind = RouteKind::softmax_chosen, .experts = 32});
  run_route({.kind = RouteKind::softmax_chosen, .k = 16});
  run_route({.kind = RouteKind::sigmoid_groups, .biased = true, .scaling = 2.827f});
  run_route(
      {.kind = RouteKind::sigmoid_groups, .experts = 64, .k = 6, .num_groups = 8, .top_groups = 3, .biased = true});
  run_route({.kind = RouteKind::sigmoid_groups, .num_groups = 4, .top_groups = 2, .renormalise = false});
  run_route({.kind = RouteKind::sigmoid_groups, .experts = 8, .k = 3, .num_groups = 8, .top_groups = 4});
}

// A damaged router must be seen: its token's result is no number, and those of the others are as they were.
TEST(Route, ALogitThatIsNoNumberSpoilsItsTokenAlone) {
  constexpr std::int64_t kExperts = 8, kChosen = 3, kSpoiled = 1;
  std::vector<float> logits = Random(5).normals(3 * kExperts, 2.0f);
  logits[kSpoiled * kExperts + 6] = std::nanf("");
  for (const RouteKind kind : {RouteKind::softmax_all, RouteKind::softmax_chosen, RouteKind::sigmoid_groups})
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor ids = arena.blank({3, kChosen}, DType::i32);
      const Tensor weights = arena.blank({3, kChosen});
      path.backend->ops().route({.logits = arena.floats(logits, {3, kExperts}),
                                 .kind = kind,
                                 .choice_bias = {},
                                 .ids = ids,
                                 .weights = weights});
      for (const std::int32_t id : arena.read_ints(ids)) EXPECT_TRUE(id >= 0 && id < kExperts);
      const std::vector<float> got = arena.read(weights);
      for (std::int64_t i = 0; i < 3 * kChosen; ++i)
        EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), i / kChosen == kSpoiled) << i;
    });
}

}  // namespace
}  // namespace octavo::conformance
