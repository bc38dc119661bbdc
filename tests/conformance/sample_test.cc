// sample and log_probs against a full sort in double: every setting alone and together, bans, ties, NaN, repeatable
// draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct Batch {
  std::vector<float> logits;
  std::int64_t vocab = 0;
  std::vector<SampleRow> rows;
  std::vector<std::int32_t> bias_ids, seen_ids, seen_counts;
  std::vector<float> bias_values;
};

std::vector<std::int32_t> sample_on(Path& path, const Batch& batch) {
  Arena arena(path.backend->device());
  const auto rows = static_cast<std::int64_t>(batch.rows.size());
  const auto biases = static_cast<std::int64_t>(batch.bias_ids.size());
  const auto seen = static_cast<std::int64_t>(batch.seen_ids.size());
  const Tensor out = arena.blank({rows}, DType::i32);
  path.backend->ops().sample({.logits = arena.floats(batch.logits, {rows, batch.vocab}),
                              .rows = arena.put(std::span(batch.rows)),
                              .bias_ids = biases > 0 ? arena.ints(batch.bias_ids, {biases}) : Tensor(),
                              .bias_values = biases > 0 ? arena.floats(batch.bias_values, {biases}) : Tensor(),
                              .seen_ids = seen > 0 ? arena.ints(batch.seen_ids, {seen}) : Tensor(),
                              .seen_counts = seen > 0 ? arena.ints(batch.seen_counts, {seen}) : Tensor(),
                              .changed = arena.blank({rows, batch.vocab}),
                              .out = out});
  return arena.read_ints(out);
}

std::vector<double> adjusted(const Batch& batch, std::size_t r) {
  const auto begin = batch.logits.begin() + static_cast<std::ptrdiff_t>(r) * batch.vocab;
  std::vector<double> x(begin, begin + batch.vocab);
  for (double& v : x) v = std::isnan(v) ? -INFINITY : v;
  const SampleRow& row = batch.rows[r];
  if (row.only_biased) {
    const std::vector<double> all = std::exchange(x, std::vector<double>(x.size(), -INFINITY));
    for (auto i = static_cast<std::size_t>(row.bias_begin); i < static_cast<std::size_t>(row.bias_end); ++i)
      x[static_cast<std::size_t>(batch.bias_ids[i])] = all[static_cast<std::size_t>(batch.bias_ids[i])];
  }
  for (auto i = static_cast<std::size_t>(row.bias_begin); i < static_cast<std::size_t>(row.bias_end); ++i)
    x[static_cast<std::size_t>(batch.bias_ids[i])] += batch.bias_values[i];
  for (auto i = static_cast<std::size_t>(row.seen_begin); i < static_cast<std::size_t>(row.seen_end); ++i) {
    double& v = x[static_cast<std::size_t>(batch.seen_ids[i])];
    v = v > 0 ? v / row.repetition_penalty : v * row.repetition_penalty;
    if (batch.seen_counts[i] > 0) v -= row.frequency_penalty * batch.seen_counts[i] + row.presence_penalty;
  }
  return x;
}

// The tokens that may be drawn, best first, with their probabilities.
struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<double> p;
};
Choice choice_of(const Batch& batch, std::size_t r) {
  const std::vector<double> x = adjusted(batch, r);
  const SampleRow& row = batch.rows[r];
  Choice choice;
  choice.ids.resize(x.size());
  std::iota(choice.ids.begin(), choice.ids.end(), 0);
  std::stable_sort(choice.ids.begin(), choice.ids.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  if (row.temperature == 0.0f) choice.ids.resize(1);
  const double best = x[static_cast<std::size_t>(choice.ids[0])];
  const auto weight = [&](std::int32_t id) {
    return std::exp((x[static_cast<std::size_t>(id)] - best) / std::max(row.temperature, 1e-9f));
  };
  while (choice.ids.size() > 1 && (weight(choice.ids.back()) < row.min_p || weight(choice.ids.back()) == 0.0))
    choice.ids.pop_back();
  if (row.top_k > 0 && choice.ids.size() > static_cast<std::size_t>(row.top_k))
    choice.ids.resize(static_cast<std::size_t>(row.top_k));
  double total = 0.0;
  for (const std::int32_t id : choice.ids) total += weight(id);
  double sum = 0.0;
  std::size_t kept = 0;
  while (kept < choice.ids.size() && (kept == 0 || sum < row.top_p * total)) sum += weight(choice.ids[kept++]);
  choice.ids.resize(kept);
  for (const std::int32_t id : choice.ids) choice.p.push_back(weight(id) / sum);
  return choice;
}

// The token at `u` of the distribution laid out by id; -1 where rounding may decide.
std::int32_t token_at(const Choice& choice, double u) {
  std::vector<std::size_t> by_id(choice.ids.size());
  std::iota(by_id.begin(), by_id.end(), 0u);
  std::sort(by_id.begin(), by_id.end(), [&](std::size_t a, std::size_t b) { return choice.ids[a] < choice.ids[b]; });
  double sum = 0.0;
  for (const std::size_t i : by_id) {
    sum += choice.p[i];
    if (std::fabs(sum - u) < 2e-6 && sum < 1.0 - 1e-9) return -1;
    if (sum > u) return choice.ids[i];
  }
  return choice.ids[by_id.back()];
}

// Rows with every setting alone and together.
Batch make_batch(std::int64_t vocab) {
  Random random(21);
  Batch batch;
  batch.vocab = vocab;
  const auto add = [&](SampleRow row, bool biased, bool seen) {
    row.seed = random.bits();
    row.position = static_cast<std::uint64_t>(random.below(10000));
    row.bias_begin = static_cast<std::int32_t>(batch.bias_ids.size());
    row.seen_begin = static_cast<std::int32_t>(batch.seen_ids.size());
    for (int i = 0; biased && i < 10; ++i) {
      batch.bias_ids.push_back(static_cast<std::int32_t>(i * vocab / 11));
      batch.bias_values.push_back(i % 3 == 0 ? -kInfinity : random.normal() * 4);
    }
    for (int i = 0; seen && i < 25; ++i) {
      batch.seen_ids.push_back(static_cast<std::int32_t>(i * vocab / 26));
      batch.seen_counts.push_back(i % 4);
    }
    row.bias_end = static_cast<std::int32_t>(batch.bias_ids.size());
    row.seen_end = static_cast<std::int32_t>(batch.seen_ids.size());
    batch.rows.push_back(row);
    std::vector<float> logits = random.normals(vocab, 3.0f);
    for (std::size_t i = 0; i < logits.size(); i += 2) logits[i] = std::round(logits[i]);  // many ties
    logits[1] = std::nanf("");
    batch.logits.insert(batch.logits.end(), logits.begin(), logits.end());
  };
  add({.temperature = 0.0f, .only_biased = true}, true, false);
  add({.temperature = 1.0f, .top_p = 0.9f, .repetition_penalty = 1.3f, .only_biased = true}, true, true);
  for (const bool more : {false, true}) {
    add({.temperature = 0.0f}, more, more);
    add({.temperature = 1.0f}, more, false);
    add({.temperature = 0.3f}, false, more);
    add({.temperature = 2.0f, .top_p = 0.9f}, more, more);
    add({.temperature = 1.0f, .top_p = 0.1f}, false, false);
    add({.temperature = 1.0f, .top_p = 1e-9f}, false, false);
    add({.temperature = 1.0f, .min_p = 0.05f}, more, false);
    add({.temperature = 1.5f, .top_k = 40}, more, false);
    add({.temperature = 1.0f, .top_k = 1}, false, false);
    add({.temperature = 1.2f, .top_p = 0.8f, .min_p = 0.001f, .top_k = 100}, false, more);
    add({.temperature = 1.0f, .repetition_penalty = 1.3f}, false, true);
    add({.temperature = 0.0f, .repetition_penalty = 1.8f, .frequency_penalty = 0.7f, .presence_penalty = 1.1f}, false,
        true);
    add({.temperature = 0.9f,
         .top_p = 0.95f,
         .repetition_penalty = 0.8f,
         .frequency_penalty = -0.5f,
         .presence_penalty = -1.0f},
        more, true);
  }
  return batch;
}

TEST(Sample, EverySettingAgainstAFullSort) {
  for (const std::int64_t vocab : {97, 1000, 49152}) {
    Batch batch = make_batch(vocab);
    std::vector<Choice> choices;
    for (std::size_t r = 0; r < batch.rows.size(); ++r) choices.push_back(choice_of(batch, r));
    for (int trial = 0; trial < (vocab > 1000 ? 2 : 40); ++trial) {
      for (SampleRow& row : batch.rows) row.position += 1;
      for_each_path([&](Path& path) {
        const std::vector<std::int32_t> got = sample_on(path, batch);
        for (std::size_t r = 0; r < got.size(); ++r) {
          const std::int32_t want = token_at(choices[r], uniform_from(batch.rows[r].seed, batch.rows[r].position));
          EXPECT_TRUE(want < 0 || got[r] == want) << "row " << r << " of " << vocab << " tokens: " << got[r];
        }
      });
    }
  }
}

// Shares of the draws approach the distribution: 8,000 draws of a row stay within five deviations.
TEST(Sample, DrawsFollowTheDistribution) {
  constexpr std::size_t kDraws = 8000;
  Batch batch;
  batch.vocab = 6;
  for (std::size_t i = 0; i < kDraws; ++i) {
    batch.logits.insert(batch.logits.end(), {0.0f, 1.0f, -kInfinity, 2.0f, 1.0f, -3.0f});
    batch.rows.push_back({.temperature = 1.0f, .seed = 5, .position = i});
  }
  const Choice choice = choice_of(batch, 0);
  for_each_path([&](Path& path) {
    std::vector<double> counts(6, 0.0);
    for (const std::int32_t id : sample_on(path, batch)) counts[static_cast<std::size_t>(id)] += 1;
    EXPECT_EQ(counts[2], 0.0) << "a banned token";
    for (std::size_t i = 0; i < choice.ids.size(); ++i) {
      const double mean = choice.p[i] * kDraws;
      EXPECT_NEAR(counts[static_cast<std::size_t>(choice.ids[i])], mean, 5 * std::sqrt(mean) + 1);
    }
  });
}

TEST(Sample, TiesBansAndBrokenLogits) {
  const float nan = std::nanf("");
  Batch batch;
  batch.vocab = 4;
  const auto add = [&](std::vector<float> logits, SampleRow row) {
    batch.logits.insert(batch.logits.end(), logits.begin(), logits.end());
    batch.rows.push_back(row);
  };
  batch.bias_ids = {0, 1, 2, 3};
  batch.bias_values = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
  const SampleRow greedy{.temperature = 0.0f};
  const SampleRow draw{.temperature = 1.0f, .top_p = 0.5f, .top_k = 3};
  SampleRow banned = greedy;
  banned.bias_end = 4;
  SampleRow banned_draw = draw;
  banned_draw.bias_end = 4;
  add({1, 5, 5, 5}, greedy);
  add({nan, nan, 2, 1}, greedy);
  add({nan, nan, nan, nan}, greedy);
  add({nan, nan, nan, nan}, draw);
  add({1, 2, 7, 3}, banned);
  add({1, 2, 7, 3}, banned_draw);
  add({-kInfinity, -kInfinity, -kInfinity, -2}, draw);
  add({1, kInfinity, 2, 3}, draw);
  add({-1e30f, -2e30f, 3, -4}, {.temperature = 1e-30f});
  add({1, 1.0000001f, 0, 0}, {.temperature = 100.0f, .top_k = 1});
  for_each_path([&](Path& path) {
    EXPECT_EQ(sample_on(path, batch), (std::vector<std::int32_t>{1, 2, -1, -1, 2, 2, 3, 1, 2, 1}));
  });
}

TEST(Sample, RowsDoNotChangeEachOther) {
  const Batch batch = make_batch(1000);
  for_each_path([&](Path& path) {
    const std::vector<std::int32_t> together = sample_on(path, batch);
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      Batch alone = batch;
      alone.rows = {batch.rows[r]};
      const auto begin = batch.logits.begin() + static_cast<std::ptrdiff_t>(r) * batch.vocab;
      alone.logits.assign(begin, begin + batch.vocab);
      EXPECT_EQ(sample_on(path, alone)[0], together[r]) << "row " << r;
    }
  });
}

TEST(LogProbs, ChosenRankAndTop) {
  Random random(22);
  for (const std::int64_t vocab : {20, 49152}) {
    constexpr std::int64_t kRows = 4, kTop = 20;
    std::vector<float> logits = random.normals(kRows * vocab, 3.0f);
    for (std::size_t i = 0; i < logits.size(); i += 2) logits[i] = std::round(logits[i]);
    logits[3] = std::nanf("");
    logits[4] = -kInfinity;
    const std::vector<std::int32_t> ids = {3, 0, static_cast<std::int32_t>(vocab - 1), 7};
    std::vector<std::int32_t> ranks, top_ids;
    std::vector<double> chosen, top_values;
    for (std::int64_t r = 0; r < kRows; ++r) {
      std::vector<double> x(logits.begin() + r * vocab, logits.begin() + (r + 1) * vocab);
      double sum = 0.0;
      for (double& v : x) sum += std::exp(v = std::isnan(v) ? -INFINITY : v);
      std::vector<std::int32_t> order(x.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
      });
      const std::int32_t id = ids[static_cast<std::size_t>(r)];
      ranks.push_back(static_cast<std::int32_t>(std::find(order.begin(), order.end(), id) - order.begin()) + 1);
      chosen.push_back(x[static_cast<std::size_t>(id)] - std::log(sum));
      for (std::size_t j = 0; j < kTop; ++j) {
        top_ids.push_back(order[j]);
        top_values.push_back(x[static_cast<std::size_t>(order[j])] - std::log(sum));
      }
    }
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor got_chosen = arena.blank({kRows});
      const Tensor got_rank = arena.blank({kRows}, DType::i32);
      const Tensor got_ids = arena.blank({kRows, kTop}, DType::i32);
      const Tensor got_values = arena.blank({kRows, kTop});
      LogProbsArgs args{.logits = arena.floats(logits, {kRows, vocab}),
                        .ids = arena.ints(ids, {kRows}),
                        .chosen = got_chosen,
                        .rank = got_rank,
                        .top_ids = got_ids,
                        .top_values = got_values};
      path.backend->ops().log_probs(args);
      EXPECT_EQ(arena.read_ints(got_rank), ranks);
      EXPECT_EQ(arena.read_ints(got_ids), top_ids);
      const auto expect_same = [](const std::vector<float>& got, const std::vector<double>& want) {
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(got[i] == want[i] || std::fabs(got[i] - want[i]) < 2e-5) << got[i] << " for " << want[i];
      };
      expect_same(arena.read(got_chosen), chosen);
      expect_same(arena.read(got_values), top_values);
      args.top_ids = Tensor();
      args.top_values = Tensor();
      path.backend->ops().log_probs(args);
      EXPECT_EQ(arena.read_ints(got_rank), ranks);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
