// rms_norm and add_rms_norm against sums in double: both orders of rounding, weights with an offset, strided rows.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct NormCase {
  std::int64_t rows = 3;
  std::int64_t n = 576;
  bool weighted = true;
  float offset = 0.0f;
  bool rounded_first = true;
  DType compute = DType::f32;
  float size = 1.0f;  // deviation of x: eps matters for small ones
};

std::vector<double> normed(const NormCase& c, const std::vector<float>& x, const std::vector<float>& weight) {
  std::vector<double> result;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < c.n; ++i) squares += std::pow(x[static_cast<std::size_t>(r * c.n + i)], 2.0);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(c.n) + 1e-5);
    for (std::int64_t i = 0; i < c.n; ++i) {
      double y = x[static_cast<std::size_t>(r * c.n + i)] * factor;
      if (c.rounded_first) y = rounded({static_cast<float>(y)}, c.compute)[0];
      result.push_back(c.weighted ? y * (weight[static_cast<std::size_t>(i)] + static_cast<double>(c.offset)) : y);
    }
  }
  return result;
}

// A number at the edge of two bf16 may fall to either side: one unit of what is rounded first, beside the result's own.
double bound_of(const NormCase& c) { return c.compute == DType::f32 ? 2e-6 : 3e-2; }

void run_norm(const NormCase& c) {
  Random random(2);
  const std::vector<float> x = rounded(random.normals(c.rows * c.n, c.size), c.compute);
  const std::vector<float> residual = rounded(random.normals(c.rows * c.n, c.size), c.compute);
  const std::vector<float> weight = random.normals(c.n);
  std::vector<float> sum;
  for (std::size_t i = 0; i < x.size(); ++i) sum.push_back(x[i] + residual[i]);
  sum = rounded(std::move(sum), c.compute);
  const std::vector<double> want = normed(c, x, weight);
  const std::vector<double> want_of_sum = normed(c, sum, weight);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const NormRule rule{c.weighted ? arena.floats(weight, {c.n}) : Tensor(), 1e-5f, c.offset, c.rounded_first};
    const Tensor input = arena.floats(x, {c.rows, c.n}, c.compute);
    const Tensor out = arena.blank({c.rows, c.n + 8}, c.compute).columns(0, c.n);
    path.backend->ops().rms_norm({.x = input, .rule = rule, .out = out});
    const std::vector<float> got = arena.read(out);
    expect_close("rms_norm", got, want, c.n, bound_of(c), c.compute);
    const Tensor updated = arena.floats(residual, {c.rows, c.n}, c.compute);
    const Tensor after = arena.blank({c.rows, c.n}, c.compute);
    path.backend->ops().add_rms_norm({.x = input, .residual = updated, .rule = rule, .out = after});
    EXPECT_EQ(arena.read(updated), sum) << "the residual is rounded once";
    expect_close("add_rms_norm", arena.read(after), want_of_sum, c.n, bound_of(c), c.compute);
    path.backend->ops().rms_norm({.x = input, .rule = rule, .out = input});
    EXPECT_EQ(arena.read(input), got) << "in place";
  });
}

TEST(Norm, EveryRuleAndWidth) {
  for (const std::int64_t n : {1, 7, 16, 64, 80, 128, 576, 1000}) run_norm({.n = n});
  for (const DType compute : {DType::f32, DType::bf16}) {
    run_norm({.rows = 33, .compute = compute});
    run_norm({.weighted = false, .compute = compute});
    run_norm({.offset = 1.0f, .rounded_first = false, .compute = compute});
    run_norm({.rounded_first = false, .compute = compute});
    run_norm({.compute = compute, .size = 1e-4f});
    run_norm({.compute = compute, .size = 1e4f});
  }
  run_norm({.rows = 2, .n = 12288});  // several packs a thread, on a GPU
  run_norm({.rows = 2, .n = 4095});
  run_norm({.rows = 0});
}

}  // namespace
}  // namespace octavo::conformance
