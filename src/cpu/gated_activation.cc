#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu_tanh(double x) {
  constexpr double kRoot = 2.0 * std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2.0;  // sqrt(2 / pi)
  return 0.5 * x * (1.0 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
}

// min and max written so that a NaN stays one.
double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double activate(Activation kind, double limit, double gate, double up) {
  switch (kind) {
    case Activation::silu:
      return up * gate * sigmoid(gate);
    case Activation::gelu_tanh:
      return up * gelu_tanh(gate);
    case Activation::sigmoid:
      return up * sigmoid(gate);
    case Activation::clamped_swish: {
      const double g = gate > limit ? limit : gate;
      return (clamped(up, -limit, limit) + 1.0) * g * sigmoid(1.702 * g);
    }
  }
  return 0.0;
}

}  // namespace

void gated_activation(ThreadPool& pool, const GatedActivationArgs& args) {
  const std::int64_t n = args.out.size(1);
  check(args.gate.size(0) == args.out.size(0) && args.gate.size(1) == n && args.up.size(0) == args.out.size(0) &&
            args.up.size(1) == n,
        "shapes of gated_activation");
  pool.run(args.out.size(0), [&](std::int64_t t) {
    std::vector<float> gate(static_cast<std::size_t>(n));
    std::vector<float> up(static_cast<std::size_t>(n));
    load_row(row_at(args.gate, t), args.gate.dtype(), n, gate.data(), args.gate.stride(1));
    load_row(row_at(args.up, t), args.up.dtype(), n, up.data(), args.up.stride(1));
    for (std::size_t i = 0; i < up.size(); ++i)
      up[i] = static_cast<float>(activate(args.kind, args.limit, gate[i], up[i]));
    store_row(up.data(), n, row_at(args.out, t), args.out.dtype());
  });
}

}  // namespace octavo::cpu::plain
