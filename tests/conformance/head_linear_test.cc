// head_linear: each head's rows of one matrix, both ways round, from and to views of wider rows.
#include <gtest/gtest.h>

#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr std::int64_t kUnitTokens = 19, kUnitHeads = 3, kUnit = 13, kFirst = 4, kCount = 6, kUnitWidth = 40;

// Of x [tokens, heads, n] with rows of w [heads * unit, in], in double.
std::vector<double> reference(const std::vector<float>& x, const std::vector<float>& w, bool transposed) {
  const std::int64_t n = transposed ? kCount : kUnitWidth;
  const std::int64_t m = transposed ? kUnitWidth : kCount;
  std::vector<double> want;
  for (std::int64_t i = 0; i < kUnitTokens * kUnitHeads; ++i)
    for (std::int64_t o = 0; o < m; ++o) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t row = i % kUnitHeads * kUnit + kFirst + (transposed ? j : o);
        sum += static_cast<double>(x[static_cast<std::size_t>(i * n + j)]) *
               w[static_cast<std::size_t>(row * kUnitWidth + (transposed ? o : j))];
      }
      want.push_back(sum);
    }
  return want;
}

TEST(HeadLinear, EachHeadMeetsItsOwnRows) {
  Random random(51);
  for (const DType compute : {DType::f32, DType::bf16})
    for (const DType stored : {DType::f32, DType::bf16})
      for (const bool transposed : {false, true}) {
        const std::int64_t n = transposed ? kCount : kUnitWidth;
        const std::int64_t m = transposed ? kUnitWidth : kCount;
        const std::vector<float> x = rounded(random.normals(kUnitTokens * kUnitHeads * n), compute);
        const std::vector<float> w = rounded(random.normals(kUnitHeads * kUnit * kUnitWidth), stored);
        const std::vector<double> want = reference(x, w, transposed);
        for_each_path([&](Path& path) {
          if (!path.processor) return;  // refused at start with all of latent attention
          Arena arena(path.backend->device());
          Weight weight;
          weight.parts.push_back(
              {.values = arena.floats(w, {kUnitHeads * kUnit, kUnitWidth}, stored), .scale = {}, .input_scale = {}});
          weight.out = kUnitHeads * kUnit;
          weight.in = kUnitWidth;
          std::vector<float> wide;  // the rows of x with five numbers of something else behind each
          for (std::size_t i = 0; i < x.size(); ++i) {
            wide.push_back(x[i]);
            if (static_cast<std::int64_t>(i + 1) % n == 0) wide.insert(wide.end(), 5, 9.0f);
          }
          const Tensor out = arena.blank({kUnitTokens, kUnitHeads, m + 7});
          path.backend->ops().head_linear(
              {.x = arena.floats(wide, {kUnitTokens, kUnitHeads, n + 5}, compute).columns(0, n),
               .weight = weight,
               .unit = kUnit,
               .first = kFirst,
               .count = kCount,
               .transposed = transposed,
               .out = out.columns(7, m)});
          expect_close("head_linear", arena.read(out.reshaped({kUnitTokens * kUnitHeads, m + 7}).columns(7, m)), want,
                       m, 1e-6);
        });
      }
}

}  // namespace
}  // namespace octavo::conformance
