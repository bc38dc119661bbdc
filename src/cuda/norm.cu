// rms_norm and add_rms_norm: a block a row. The row is read twice; the second time it comes from the cache. Rows that
// are aligned go four numbers at a time with as many threads as that keeps busy: alone, a row's time is that of its
// loads.
#include <algorithm>

#include "cuda/check.h"
#include "cuda/packs.cuh"
#include "cuda/reduce.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kMaxThreads = 1024;

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

template <class In, class Out, int N>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(Rows<In> x, Norm norm, Rows<Out> out) {
  In* from = x.row(blockIdx.x);
  Out* to = out.row(blockIdx.x);
  const std::int64_t step = std::int64_t{blockDim.x} * N;
  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x * N; i < norm.n; i += step) {
    const Pack<In, N> numbers = pack_at<In, N>(from, i);
#pragma unroll
    for (int j = 0; j < N; ++j) squares += to_float(numbers.values[j]) * to_float(numbers.values[j]);
  }
  const float factor = 1.0f / sqrtf(sum_block(squares) / static_cast<float>(norm.n) + norm.eps);
  for (std::int64_t i = threadIdx.x * N; i < norm.n; i += step) {
    const Pack<In, N> numbers = pack_at<In, N>(from, i);
    Pack<Out, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j)
      result.values[j] = from_float<Out>(apply<In>(norm, to_float(numbers.values[j]) * factor, i + j));
    pack_at<Out, N>(to, i) = result;
  }
}

template <class In, class Residual, class Out, int N>
__global__ void __launch_bounds__(kMaxThreads)
    add_rms_norm_kernel(Rows<In> x, Rows<Residual> residual, Norm norm, Rows<Out> out) {
  In* from = x.row(blockIdx.x);
  Residual* total = residual.row(blockIdx.x);
  Out* to = out.row(blockIdx.x);
  const std::int64_t step = std::int64_t{blockDim.x} * N;
  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x * N; i < norm.n; i += step) {
    const Pack<In, N> added = pack_at<In, N>(from, i);
    Pack<Residual, N> sums = pack_at<Residual, N>(total, i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums.values[j] = from_float<Residual>(to_float(sums.values[j]) + to_float(added.values[j]));
      squares += to_float(sums.values[j]) * to_float(sums.values[j]);
    }
    pack_at<Residual, N>(total, i) = sums;
  }
  const float factor = 1.0f / sqrtf(sum_block(squares) / static_cast<float>(norm.n) + norm.eps);
  for (std::int64_t i = threadIdx.x * N; i < norm.n; i += step) {  // each thread reads what it wrote
    const Pack<Residual, N> sums = pack_at<Residual, N>(total, i);
    Pack<Out, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j)
      result.values[j] = from_float<Out>(apply<Residual>(norm, to_float(sums.values[j]) * factor, i + j));
    pack_at<Out, N>(to, i) = result;
  }
}

// Whole warps, each thread with N numbers, at most kMaxThreads.
unsigned threads_for(std::int64_t n, int numbers) {
  const std::int64_t warps = (n + 32 * numbers - 1) / (32 * numbers);
  return static_cast<unsigned>(std::min<std::int64_t>(kMaxThreads, 32 * std::max<std::int64_t>(1, warps)));
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
      const bool packed = by_four(args.x) && by_four(args.out);
      const auto kernel = packed ? rms_norm_kernel<In, Out, 4> : rms_norm_kernel<In, Out, 1>;
      kernel<<<static_cast<unsigned>(rows), threads_for(norm.n, packed ? 4 : 1), 0, stream>>>(rows_of<In>(args.x), norm,
                                                                                              rows_of<Out>(args.out));
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
        const bool packed = by_four(args.x) && by_four(args.residual) && by_four(args.out);
        const auto kernel =
            packed ? add_rms_norm_kernel<In, Residual, Out, 4> : add_rms_norm_kernel<In, Residual, Out, 1>;
        kernel<<<static_cast<unsigned>(rows), threads_for(norm.n, packed ? 4 : 1), 0, stream>>>(
            rows_of<In>(args.x), rows_of<Residual>(args.residual), norm, rows_of<Out>(args.out));
      });
    });
  });
  check_launch();
}

}  // namespace octavo::cuda
