// gated_activation: every kind, gate and up side by side and interleaved, extreme inputs, in place; and of a product's
// halves, which a wing may compute in one go.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/conformance/arena.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

double activated(Activation kind, double gate, double up, double limit) {
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  switch (kind) {
    case Activation::silu:
      return up * gate * sigmoid(gate);
    case Activation::gelu_tanh:
      return up * 0.5 * gate *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (gate + 0.044715 * std::pow(gate, 3.0))));
    case Activation::sigmoid:
      return up * sigmoid(gate);
    case Activation::clamped_swish:
      gate = std::min(gate, limit);
      return (std::min(std::max(up, -limit), limit) + 1.0) * gate * sigmoid(1.702 * gate);
  }
  return 0.0;
}

TEST(GatedActivation, EveryKindLayoutAndDtype) {
  Random random(5);
  for (const std::int64_t n : {1, 5, 16, 33, 1536})
    for (const DType compute : {DType::f32, DType::bf16})
      for (const bool interleaved : {false, true})
        for (const Activation kind :
             {Activation::silu, Activation::gelu_tanh, Activation::sigmoid, Activation::clamped_swish}) {
          const std::int64_t rows = 3;
          const std::vector<float> x = rounded(random.normals(rows * 2 * n, 4.0f), compute);
          std::vector<double> want;
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t i = 0; i < n; ++i) {
              const float* row = x.data() + r * 2 * n;
              want.push_back(activated(kind, row[interleaved ? 2 * i : i], row[interleaved ? 2 * i + 1 : n + i], 7.0));
            }
          for_each_path([&](Path& path) {
            Arena arena(path.backend->device());
            const Tensor both = arena.floats(x, {rows, 2 * n}, compute);
            const Tensor gate = interleaved ? both.every(0, 2) : both.columns(0, n);
            const Tensor up = interleaved ? both.every(1, 2) : both.columns(n, n);
            const Tensor out = arena.blank({rows, n}, compute);
            path.backend->ops().gated_activation({.gate = gate, .up = up, .kind = kind, .limit = 7.0f, .out = out});
            const std::vector<float> got = arena.read(out);
            expect_close("kind " + std::to_string(static_cast<int>(kind)), got, want, n, 4e-6, compute);
            if (interleaved) return;
            path.backend->ops().gated_activation({.gate = gate, .up = up, .kind = kind, .limit = 7.0f, .out = up});
            EXPECT_EQ(arena.read(up), got) << "in place";
          });
        }
}

// The bits are those of the product and its activation one after the other.
void run_halves(const WeightKind& kind, std::int64_t tokens, std::int64_t n, std::int64_t in, bool with_bias) {
  Random random(8);
  std::vector<HostPart> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(make_part(kind.dtype, kind.grain, n, in, random));
  const std::vector<float> x = rounded(random.normals(tokens * in), DType::bf16);
  const std::vector<float> bias = with_bias ? random.normals(2 * n) : std::vector<float>();
  const std::vector<double> both = product(parts, x, bias);
  std::vector<double> want;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < n; ++i) {
      const double* row = both.data() + t * 2 * n;
      want.push_back(activated(Activation::silu, row[i], row[n + i], 0.0));
    }
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    Ops& ops = path.backend->ops();
    const Weight weight = upload(arena, parts);
    const Tensor input = arena.floats(x, {tokens, in}, DType::bf16);
    const Tensor added = with_bias ? arena.floats(bias, {2 * n}) : Tensor();
    const Tensor room = arena.blank({tokens, 2 * n}, DType::bf16);
    const Tensor out = arena.blank({tokens, n}, DType::bf16);
    ops.gated_linear({.x = input, .weight = weight, .bias = added, .both = room, .out = out});
    const std::vector<float> got = arena.read(out);
    // Where weights are in 8 bits a product of many rows may round its inputs to 8 bits too.
    if (kind.dtype == DType::bf16 || !path.deterministic)
      expect_close(std::string("halves of ") + kind.name, got, want, n, 4e-2, DType::bf16);
    const Tensor product = arena.blank({tokens, 2 * n}, DType::bf16);
    const Tensor after = arena.blank({tokens, n}, DType::bf16);
    ops.linear({.x = input, .weight = weight, .bias = added, .out = product});
    ops.gated_activation({.gate = product.columns(0, n), .up = product.columns(n, n), .out = after});
    EXPECT_EQ(got, arena.read(after)) << kind.name << ", " << tokens << " tokens, " << n << " x " << in;
  });
}

TEST(GatedActivation, OfTheHalvesOfAProduct) {
  for (const WeightKind& kind : {WeightKind{"bf16", DType::bf16, ScaleGrain::none},
                                 WeightKind{"e4m3 channel", DType::e4m3, ScaleGrain::channel}})
    for (const std::int64_t tokens : {1, 3}) {
      run_halves(kind, tokens, 71, 4160, false);
      run_halves(kind, tokens, 2, 64, true);
    }
}

// Far from zero every kind has a limit; none of them is infinity times zero.
TEST(GatedActivation, ExtremeGates) {
  const std::vector<float> gate = {-1e4f, -100.0f, -88.8f, 0.0f, 88.8f, 100.0f, 1e4f, -3e38f};
  const std::vector<float> up(gate.size(), 2.0f);
  const auto n = static_cast<std::int64_t>(gate.size());
  for (const Activation kind :
       {Activation::silu, Activation::gelu_tanh, Activation::sigmoid, Activation::clamped_swish})
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor out = arena.blank({1, n});
      path.backend->ops().gated_activation({.gate = arena.floats(gate, {1, n}),
                                            .up = arena.floats(up, {1, n}),
                                            .kind = kind,
                                            .limit = 7.0f,
                                            .out = out});
      const std::vector<float> got = arena.read(out);
      for (std::size_t i = 0; i + 1 < gate.size(); ++i) {
        const double want = activated(kind, gate[i], 2.0, 7.0);
        EXPECT_NEAR(got[i], want, 4e-6 * std::fabs(want) + 1e-30) << "gate " << gate[i];
      }
      EXPECT_EQ(got.back(), 0.0f) << "the far negative end";
    });
}

}  // namespace
}  // namespace octavo::conformance
