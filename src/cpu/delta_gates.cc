#include <cmath>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

void delta_gates(ThreadPool& pool, const DeltaGatesArgs& args) {
  const std::int64_t tokens = args.a.size(0);
  const std::int64_t heads = args.a.size(1);
  for (const Tensor* x : {&args.b, &args.decay, &args.beta})
    check(x->size(0) == tokens && x->size(1) == heads && x->dtype() == DType::f32, "shapes of delta_gates");
  check(args.a.dtype() == DType::f32 && args.a_log.elements() == heads && args.dt_bias.elements() == heads,
        "shapes of delta_gates");
  const float* a_log = floats(args.a_log);
  const float* dt_bias = floats(args.dt_bias);
  pool.run(tokens, [&](std::int64_t t) {
    const auto* a = reinterpret_cast<const float*>(row_at(args.a, t));
    const auto* b = reinterpret_cast<const float*>(row_at(args.b, t));
    auto* decay = reinterpret_cast<float*>(row_at(args.decay, t));
    auto* beta = reinterpret_cast<float*>(row_at(args.beta, t));
    for (std::int64_t h = 0; h < heads; ++h) {
      const double step = softplus(static_cast<double>(a[h]) + dt_bias[h]);
      decay[h] = static_cast<float>(-std::exp(static_cast<double>(a_log[h])) * step);
      beta[h] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b[h]))));
    }
  });
}

}  // namespace octavo::cpu::plain
