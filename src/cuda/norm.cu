// rms_norm and add_rms_norm: a block a row, which its threads hold in registers between the sum and the result. Rows
// that are aligned go four numbers at a time with as many threads as that keeps busy: alone, a row's time is that of
// its loads. In a step these kernels stand between products, so they start early, and ask for their first weights
// before the kernel before has ended.
#include <algorithm>

#include "cuda/early_start.cuh"
#include "cuda/packs.cuh"
#include "cuda/reduce.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kMaxThreads = 1024;
// Packs of a row that a thread holds. Those of usual rows leave registers for what the multiprocessor still does.
constexpr int kFewPacks = 2, kMostPacks = 4;

struct Norm {
  const float* weight = nullptr;  // f32 [n] or null
  float eps = 0.0f;
  float offset = 0.0f;
  bool rounded_first = false;
  std::int64_t n = 0;
};

// numbers: in a pack.
Norm norm_of(const NormRule& rule, std::int64_t n, int numbers) {
  octavo::check(rule.weight.empty() || rule.weight.elements() == n, "a norm's weight has one number a channel");
  octavo::check(n <= std::int64_t{kMaxThreads} * kMostPacks * numbers, "a row to be normed fits a block's registers");
  return {floats(rule.weight), rule.eps, rule.weight_offset, rule.rounded_first, n};
}

// A thread's places in a row, pack k being a block's width behind the one before: visit is called with k and the place.
template <int kPacks, int N, class Visit>
__device__ void for_packs(std::int64_t n, const Visit& visit) {
  const int stride = static_cast<int>(blockDim.x) * N;
#pragma unroll
  for (int k = 0; k < kPacks; ++k)
    if (const std::int64_t i = static_cast<int>(threadIdx.x) * N + k * stride; i < n) visit(k, i);
}

template <int N>
struct WeightPack {
  float values[N] = {};

  __device__ WeightPack(const Norm& norm, std::int64_t i) {
    if (norm.weight == nullptr || i >= norm.n) return;
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = norm.weight[i + j] + norm.offset;
  }
};

// What a thread has of a row, and of the weights that belong to its first pack.
template <int kPacks, int N>
struct HeldRow {
  float x[kPacks][N];
  float squares = 0.0f;
  WeightPack<N> first;

  __device__ explicit HeldRow(const Norm& norm) : first(norm, static_cast<int>(threadIdx.x) * N) {}
  __device__ void put(int k, int j, float value) {
    x[k][j] = value;
    squares += value * value;
  }
};

// y is rounded to `Rounded`, the dtype of what is normed, if the rule says so.
template <class Rounded, class Out, int kPacks, int N>
__device__ void put_normed(const Norm& norm, const HeldRow<kPacks, N>& row, Out* to) {
  const float factor = 1.0f / sqrtf(sum_block(row.squares) / static_cast<float>(norm.n) + norm.eps);
  for_packs<kPacks, N>(norm.n, [&](int k, std::int64_t i) {
    const WeightPack<N> weights = k == 0 ? row.first : WeightPack<N>(norm, i);
    Pack<Out, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float y = row.x[k][j] * factor;
      if (norm.weight != nullptr) {
        if (norm.rounded_first) y = to_float(from_float<Rounded>(y));
        y *= weights.values[j];
      }
      result.values[j] = from_float<Out>(y);
    }
    pack_at<Out, N>(to, i) = result;
  });
}

template <class In, class Out, int kPacks, int N>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(Rows<In> x, Norm norm, Rows<Out> out) {
  HeldRow<kPacks, N> row(norm);
  let_next_start();
  wait_for_kernels_before();
  In* from = x.row(blockIdx.x);
  for_packs<kPacks, N>(norm.n, [&](int k, std::int64_t i) {
    const Pack<In, N> numbers = pack_at<In, N>(from, i);
#pragma unroll
    for (int j = 0; j < N; ++j) row.put(k, j, to_float(numbers.values[j]));
  });
  put_normed<In>(norm, row, out.row(blockIdx.x));
}

template <class In, class Residual, class Out, int kPacks, int N>
__global__ void __launch_bounds__(kMaxThreads)
    add_rms_norm_kernel(Rows<In> x, Rows<Residual> residual, Norm norm, Rows<Out> out) {
  HeldRow<kPacks, N> row(norm);
  let_next_start();
  wait_for_kernels_before();
  In* from = x.row(blockIdx.x);
  Residual* total = residual.row(blockIdx.x);
  for_packs<kPacks, N>(norm.n, [&](int k, std::int64_t i) {
    const Pack<In, N> added = pack_at<In, N>(from, i);
    Pack<Residual, N> sums = pack_at<Residual, N>(total, i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums.values[j] = from_float<Residual>(to_float(sums.values[j]) + to_float(added.values[j]));
      row.put(k, j, to_float(sums.values[j]));
    }
    pack_at<Residual, N>(total, i) = sums;
  });
  put_normed<Residual>(norm, row, out.row(blockIdx.x));
}

bool fits_few(const Norm& norm) { return norm.n <= std::int64_t{kMaxThreads} * kFewPacks * 4; }

// Whole warps, each thread with N numbers, at most kMaxThreads.
int threads_for(std::int64_t n, int numbers) {
  const std::int64_t warps = (n + 32 * numbers - 1) / (32 * numbers);
  return static_cast<int>(std::min<std::int64_t>(kMaxThreads, 32 * std::max<std::int64_t>(1, warps)));
}

}  // namespace

void rms_norm(cudaStream_t stream, const RmsNormArgs& args) {
  const std::int64_t rows = args.x.size(0);
  octavo::check(args.out.size(0) == rows && args.out.size(1) == args.x.size(1), "shapes of rms_norm");
  if (rows == 0) return;
  const bool packed = by_four(args.x) && by_four(args.out);
  const Norm norm = norm_of(args.rule, args.x.size(1), packed ? 4 : 1);
  visit_float(args.x.dtype(), [&](auto in) {
    visit_float(args.out.dtype(), [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      const auto kernel = !packed          ? rms_norm_kernel<In, Out, kMostPacks, 1>
                          : fits_few(norm) ? rms_norm_kernel<In, Out, kFewPacks, 4>
                                           : rms_norm_kernel<In, Out, kMostPacks, 4>;
      launch_early(stream, static_cast<unsigned>(rows), threads_for(norm.n, packed ? 4 : 1), 0, kernel,
                   rows_of<In>(args.x), norm, rows_of<Out>(args.out));
    });
  });
}

void add_rms_norm(cudaStream_t stream, const AddRmsNormArgs& args) {
  const std::int64_t rows = args.x.size(0);
  const std::int64_t n = args.x.size(1);
  octavo::check(
      args.residual.size(0) == rows && args.residual.size(1) == n && args.out.size(0) == rows && args.out.size(1) == n,
      "shapes of add_rms_norm");
  if (rows == 0) return;
  const bool packed = by_four(args.x) && by_four(args.residual) && by_four(args.out);
  const Norm norm = norm_of(args.rule, n, packed ? 4 : 1);
  visit_float(args.x.dtype(), [&](auto in) {
    visit_float(args.residual.dtype(), [&](auto residual) {
      visit_float(args.out.dtype(), [&](auto out) {
        using In = decltype(in);
        using Residual = decltype(residual);
        using Out = decltype(out);
        const auto kernel = !packed          ? add_rms_norm_kernel<In, Residual, Out, kMostPacks, 1>
                            : fits_few(norm) ? add_rms_norm_kernel<In, Residual, Out, kFewPacks, 4>
                                             : add_rms_norm_kernel<In, Residual, Out, kMostPacks, 4>;
        launch_early(stream, static_cast<unsigned>(rows), threads_for(norm.n, packed ? 4 : 1), 0, kernel,
                     rows_of<In>(args.x), rows_of<Residual>(args.residual), norm, rows_of<Out>(args.out));
      });
    });
  });
}

}  // namespace octavo::cuda
