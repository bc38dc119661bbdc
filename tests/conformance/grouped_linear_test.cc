// grouped_linear over every weight dtype and grain of scale, against sums in double of numbers unpacked by the test.
#include <gtest/gtest.h>

#include "tests/conformance/host_weights.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct GroupedCase {
  WeightKind kind;
  std::int64_t tokens, k, experts, out, in;
  bool row_of_choice, biased, summed;
  DType compute = DType::f32;  // of devices
};

void run_grouped(const GroupedCase& c) {
  Random random(11);
  std::vector<HostPart> experts;
  for (std::int64_t e = 0; e < c.experts; ++e)
    experts.push_back(make_part(c.kind.dtype, c.kind.grain, c.out, c.in, random));
  const std::vector<float> x = rounded(random.normals((c.row_of_choice ? c.tokens * c.k : c.tokens) * c.in), c.compute);
  const std::vector<float> bias = random.normals(c.experts * c.out);
  const std::vector<float> weights = random.normals(c.tokens * c.k);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < c.tokens; ++i) {
    const std::int32_t first = random.below(static_cast<std::int32_t>(c.experts));
    for (std::int64_t j = 0; j < c.k; ++j) ids.push_back(static_cast<std::int32_t>((first + j * 3) % c.experts));
  }
  std::vector<double> want(static_cast<std::size_t>((c.summed ? c.tokens : c.tokens * c.k) * c.out), 0.0);
  for (std::int64_t i = 0; i < c.tokens * c.k; ++i) {
    const auto expert = static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]);
    const std::int64_t row = c.row_of_choice ? i : i / c.k;
    const std::vector<float> input(x.begin() + row * c.in, x.begin() + (row + 1) * c.in);
    const auto bias_at = bias.begin() + static_cast<std::ptrdiff_t>(expert) * c.out;
    const std::vector<double> y = product(
        {experts[expert]}, input, c.biased ? std::vector<float>(bias_at, bias_at + c.out) : std::vector<float>());
    for (std::int64_t o = 0; o < c.out; ++o)
      want[static_cast<std::size_t>((c.summed ? i / c.k : i) * c.out + o)] +=
          y[static_cast<std::size_t>(o)] * (c.summed ? weights[static_cast<std::size_t>(i)] : 1.0f);
  }
  for_each_path([&](Path& path) {
    const DType compute = path.processor ? DType::f32 : c.compute;
    Arena arena(path.backend->device());
    std::vector<Weight> uploaded;
    for (const HostPart& expert : experts) uploaded.push_back(upload(arena, {expert}));
    const Tensor result = arena.blank({c.summed ? c.tokens : c.tokens * c.k, c.out}, compute);
    path.backend->ops().grouped_linear(
        {.x = arena.floats(x, {c.row_of_choice ? c.tokens * c.k : c.tokens, c.in}, compute),
         .experts = uploaded,
         .bias = c.biased ? arena.floats(bias, {c.experts, c.out}) : Tensor(),
         .ids = arena.ints(ids, {c.tokens, c.k}),
         .weights = c.summed ? arena.floats(weights, {c.tokens, c.k}) : Tensor(),
         .out = result});
    // Of bf16 rows a GPU's tensor cores take the scaled numbers of a packed weight, rounded once: 2^-9 each at most.
    const double bound = path.processor ? 5e-6 : c.compute == DType::bf16 ? 1e-2 : 4e-3;
    expect_close(c.kind.name, arena.read(result), want, c.out, bound, compute);
  });
}

TEST(GroupedLinear, ChoicesWeightsAndBias) {
  for (const WeightKind& kind : kWeightKinds) run_grouped({kind, 6, 2, 8, 24, 96, false, true, true});
  for (const WeightKind& kind : kLargeKinds) run_grouped({kind, 6, 2, 8, 24, 256, false, true, true});
  // MXFP4 in rows of one expert that are few, many, and more than the span of scales that a kernel reads at once.
  for (const std::int64_t tokens : {1, 4, 40}) run_grouped({kMxfp4, tokens, 2, 4, 24, 96, false, true, true});
  run_grouped({kMxfp4, 3, 2, 4, 50, 2880, true, true, false});
  run_grouped({kWeightKinds[2], 1, 4, 4, 32, 64, false, false, false});
  run_grouped({kWeightKinds[2], 13, 3, 5, 40, 64, true, true, true});
  run_grouped({kWeightKinds[7], 13, 3, 5, 40, 64, true, false, false});
}

// Rows and parts that kernels take in tiles: few rows of an expert and many, tiles that are not full, experts that
// nobody chose, and more numbers than one block makes.
TEST(GroupedLinear, ChoicesInTiles) {
  constexpr DType kCompute = DType::bf16;
  std::vector<WeightKind> kinds = all_weight_kinds();
  kinds.push_back(kMxfp4);
  for (const WeightKind& kind : kinds) {
    run_grouped({kind, 1, 4, 8, 48, 256, false, true, true, kCompute});
    run_grouped({kind, 21, 2, 8, 48, 256, true, true, false, kCompute});
    run_grouped({kind, 41, 2, 5, 144, 256, false, true, true, kCompute});
  }
  for (const WeightKind& kind : {kWeightKinds[2], kMxfp4})
    run_grouped({kind, 67, 3, 3, 160, 256, true, false, false, kCompute});
  run_grouped({kWeightKinds[2], 300, 4, 30, 272, 1088, false, true, true, kCompute});
  run_grouped({kWeightKinds[2], 150, 4, 300, 272, 64, true, true, true, kCompute});
}

// Each expert a stack of two parts of its own kind; many rows of one expert, and experts that nobody chose.
TEST(GroupedLinear, ExpertsOfTwoParts) {
  constexpr std::int64_t kTokens = 150, kIn = 64, kParts[] = {32, 48}, kAll = 80;
  Random random(13);
  const std::vector<float> x = rounded(random.normals(kTokens * kIn), DType::bf16);
  for (const WeightKind& kind : {kWeightKinds[2], kWeightKinds[5], kMxfp4}) {
    std::vector<std::vector<HostPart>> experts;
    for (int e = 0; e < 5; ++e) {
      std::vector<HostPart>& parts = experts.emplace_back();
      for (const std::int64_t out : kParts) parts.push_back(make_part(kind.dtype, kind.grain, out, kIn, random));
    }
    std::vector<std::int32_t> ids;
    std::vector<double> want;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      ids.push_back(t % 10 == 0 ? 3 : 1);
      const std::vector<float> row(x.begin() + t * kIn, x.begin() + (t + 1) * kIn);
      const std::vector<double> y = product(experts[static_cast<std::size_t>(ids.back())], row, {});
      want.insert(want.end(), y.begin(), y.end());
    }
    for_each_path([&](Path& path) {
      const DType compute = path.processor ? DType::f32 : DType::bf16;
      Arena arena(path.backend->device());
      std::vector<Weight> uploaded;
      for (const auto& parts : experts) uploaded.push_back(upload(arena, parts));
      const Tensor result = arena.blank({kTokens, kAll}, compute);
      path.backend->ops().grouped_linear({.x = arena.floats(x, {kTokens, kIn}, compute),
                                          .experts = uploaded,
                                          .bias = {},
                                          .ids = arena.ints(ids, {kTokens, 1}),
                                          .weights = {},
                                          .out = result});
      expect_close(kind.name, arena.read(result), want, kAll, path.processor ? 5e-6 : 1e-2, compute);
    });
  }
}

// Experts that come to lie where others were: their numbers count, not the address.
TEST(GroupedLinear, OtherExpertsAtTheSameAddress) {
  Random random(12);
  const std::vector<float> x = random.normals(64);
  const std::vector<HostPart> first = {make_part(DType::bf16, ScaleGrain::none, 32, 64, random)};
  const std::vector<HostPart> second = {make_part(DType::q8_0, ScaleGrain::none, 32, 64, random)};
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    std::vector<Weight> experts(1);
    for (const std::vector<HostPart>& parts : {first, second, first}) {
      experts[0] = upload(arena, parts);
      for (int again = 0; again < 2; ++again) {
        const Tensor result = arena.blank({1, 32});
        path.backend->ops().grouped_linear({.x = arena.floats(x, {1, 64}),
                                            .experts = experts,
                                            .bias = {},
                                            .ids = arena.ints(std::vector<std::int32_t>{0}, {1, 1}),
                                            .weights = {},
                                            .out = result});
        expect_close("one expert", arena.read(result), product(parts, x, {}), 32, path.processor ? 5e-6 : 4e-3);
      }
    }
  });
}

}  // namespace
}  // namespace octavo::conformance
