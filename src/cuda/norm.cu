// rms_norm and add_rms_norm: a block a row. The row is read twice; the second time it comes from the cache.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/reduce.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kThreads = 256;

struct Norm {
  const float* weight = nullptr;  // f32 [n] or null
  float eps = 0.0f;
  float offset = 0.0f;
  bool rounded_first = false;
  std::int64_t n = 0;
};

Norm norm_of(const NormRule& rule, std::int64_t n) {
  octavo::check(rule.weight.empty() || rule.weight.elements() == n, "a norm's weight has one number a channel");
  return {floats(rule.weight), rule.eps, rule.weight_offset, rule.rounded_first, n};
}

// y is rounded to `Rounded`, the dtype of what is normed, if the rule says so.
template <class Rounded>
__device__ float apply(const Norm& norm, float y, std::int64_t i) {
  if (norm.weight == nullptr) return y;
  if (norm.rounded_first) y = to_float(from_float<Rounded>(y));
  return (norm.weight[i] + norm.offset) * y;
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(Rows<In> x, Norm norm, Rows<Out> out) {
  const In* from = x.row(blockIdx.x);
  Out* to = out.row(blockIdx.x);
  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x; i < norm.n; i += kThreads) {
    const float value = to_float(from[i]);
    squares += value * value;
  }
  const float factor = 1.0f / sqrtf(sum_block(squares) / static_cast<float>(norm.n) + norm.eps);
  for (std::int64_t i = threadIdx.x; i < norm.n; i += kThreads)
    to[i] = from_float<Out>(apply<In>(norm, to_float(from[i]) * factor, i));
}

template <class In, class Residual, class Out>
__global__ void __launch_bounds__(kThreads)
    add_rms_norm_kernel(Rows<In> x, Rows<Residual> residual, Norm norm, Rows<Out> out) {
  const In* from = x.row(blockIdx.x);
  Residual* sum = residual.row(blockIdx.x);
  Out* to = out.row(blockIdx.x);
  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x; i < norm.n; i += kThreads) {
    const Residual rounded = from_float<Residual>(to_float(sum[i]) + to_float(from[i]));
    sum[i] = rounded;
    squares += to_float(rounded) * to_float(rounded);
  }
  const float factor = 1.0f / sqrtf(sum_block(squares) / static_cast<float>(norm.n) + norm.eps);
  for (std::int64_t i = threadIdx.x; i < norm.n; i += kThreads)  // each thread reads what it wrote
    to[i] = from_float<Out>(apply<Residual>(norm, to_float(sum[i]) * factor, i));
}

}  // namespace

void rms_norm(cudaStream_t stream, const RmsNormArgs& args) {
  const std::int64_t rows = args.x.size(0);
  octavo::check(args.out.size(0) == rows && args.out.size(1) == args.x.size(1), "shapes of rms_norm");
  if (rows == 0) return;
  const Norm norm = norm_of(args.rule, args.x.size(1));
  visit_float(args.x.dtype(), [&](auto in) {
    visit_float(args.out.dtype(), [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      rms_norm_kernel<In, Out>
          <<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(rows_of<In>(args.x), norm, rows_of<Out>(args.out));
    });
  });
  check_launch();
}

void add_rms_norm(cudaStream_t stream, const AddRmsNormArgs& args) {
  const std::int64_t rows = args.x.size(0);
  const std::int64_t n = args.x.size(1);
  octavo::check(
      args.residual.size(0) == rows && args.residual.size(1) == n && args.out.size(0) == rows && args.out.size(1) == n,
      "shapes of add_rms_norm");
  if (rows == 0) return;
  const Norm norm = norm_of(args.rule, n);
  visit_float(args.x.dtype(), [&](auto in) {
    visit_float(args.residual.dtype(), [&](auto residual) {
      visit_float(args.out.dtype(), [&](auto out) {
        using In = decltype(in);
        using Residual = decltype(residual);
        using Out = decltype(out);
        add_rms_norm_kernel<In, Residual, Out><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
            rows_of<In>(args.x), rows_of<Residual>(args.residual), norm, rows_of<Out>(args.out));
      });
    });
  });
  check_launch();
}

}  // namespace octavo::cuda
