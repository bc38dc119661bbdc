// rms_norm and add_rms_norm: a block a row, which its threads hold in registers between the sum and the result. Rows
// that are aligned go four numbers at a time with as many threads as that keeps busy: alone, a row's time is that of
// its loads. In a step these kernels stand between products, so they start early, and ask for their first weights
// before the kernel before has ended. Of many rows a thread takes the work of four, so that more rows are on their way
// at once; sums keep their order.
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
constexpr int kManyRows = 512;
constexpr int kManySlots = 4;  // threads of a row whose work one does then

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

// The packs of a row that the threads of its block hold: those of `threads` threads, of which one may stand for
// several. Pack k of a thread is a row of threads behind the one before: visit is called with the slot, k and the
// place.
template <int kSlots, int kPacks, int N, class Visit>
__device__ void for_packs(std::int64_t n, int threads, const Visit& visit) {
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const int thread = static_cast<int>(threadIdx.x + slot * blockDim.x);
    if (kSlots > 1 && thread >= threads) continue;
#pragma unroll
    for (int k = 0; k < kPacks; ++k)
      if (const std::int64_t i = (thread + k * threads) * N; i < n) visit(slot, k, i);
  }
}

// The sum over all threads, each with those it stands for: over warps as they would be without.
template <int kSlots>
__device__ float sum_row(const float (&squares)[kSlots], int threads) {
  if constexpr (kSlots == 1) return sum_block(squares[0]);
  __shared__ float parts[kMaxWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    float sum = squares[slot];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const int place = warp + slot * static_cast<int>(blockDim.x) / 32;
    if (lane == 0 && place < threads / 32) parts[place] = sum;
  }
  __syncthreads();
  float sum = lane < threads / 32 ? parts[lane] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  return sum;
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
template <int kSlots, int kPacks, int N>
struct HeldRow {
  float x[kSlots][kPacks][N];
  float squares[kSlots] = {};
  WeightPack<N> first;

  __device__ explicit HeldRow(const Norm& norm) : first(norm, static_cast<int>(threadIdx.x) * N) {}
  __device__ void put(int slot, int k, int j, float value) {
    x[slot][k][j] = value;
    squares[slot] += value * value;
  }
};

// y is rounded to `Rounded`, the dtype of what is normed, if the rule says so.
template <class Rounded, class Out, int kSlots, int kPacks, int N>
__device__ void put_normed(const Norm& norm, const HeldRow<kSlots, kPacks, N>& row, int threads, Out* to) {
  const float factor = 1.0f / sqrtf(sum_row(row.squares, threads) / static_cast<float>(norm.n) + norm.eps);
  for_packs<kSlots, kPacks, N>(norm.n, threads, [&](int slot, int k, std::int64_t i) {
    const WeightPack<N> weights = slot == 0 && k == 0 ? row.first : WeightPack<N>(norm, i);
    Pack<Out, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float y = row.x[slot][k][j] * factor;
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
  HeldRow<1, kPacks, N> row(norm);
  const int threads = static_cast<int>(blockDim.x);
  let_next_start();
  wait_for_kernels_before();
  In* from = x.row(blockIdx.x);
  for_packs<1, kPacks, N>(norm.n, threads, [&](int slot, int k, std::int64_t i) {
    const Pack<In, N> numbers = pack_at<In, N>(from, i);
#pragma unroll
    for (int j = 0; j < N; ++j) row.put(slot, k, j, to_float(numbers.values[j]));
  });
  put_normed<In>(norm, row, threads, out.row(blockIdx.x));
}

template <class In, class Residual, class Out, int kSlots, int kPacks, int N>
__global__ void __launch_bounds__(kMaxThreads / kSlots)
    add_rms_norm_kernel(Rows<In> x, Rows<Residual> residual, Norm norm, int threads, Rows<Out> out) {
  HeldRow<kSlots, kPacks, N> row(norm);
  let_next_start();
  wait_for_kernels_before();
  In* from = x.row(blockIdx.x);
  Residual* total = residual.row(blockIdx.x);
  Pack<In, N> added[kSlots][kPacks];
  Pack<Residual, N> sums[kSlots][kPacks];
  for_packs<kSlots, kPacks, N>(norm.n, threads, [&](int slot, int k, std::int64_t i) {
    added[slot][k] = pack_at<In, N>(from, i);
    sums[slot][k] = pack_at<Residual, N>(total, i);
  });
  for_packs<kSlots, kPacks, N>(norm.n, threads, [&](int slot, int k, std::int64_t i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float& sum = row.x[slot][k][j];
      sum = to_float(from_float<Residual>(to_float(sums[slot][k].values[j]) + to_float(added[slot][k].values[j])));
      row.squares[slot] += sum * sum;
      sums[slot][k].values[j] = from_float<Residual>(sum);
    }
    pack_at<Residual, N>(total, i) = sums[slot][k];
  });
  put_normed<Residual>(norm, row, threads, out.row(blockIdx.x));
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
        const int threads = threads_for(norm.n, packed ? 4 : 1);
        const auto launch = [&](auto kernel, int launched) {
          launch_early(stream, static_cast<unsigned>(rows), launched, 0, kernel, rows_of<In>(args.x),
                       rows_of<Residual>(args.residual), norm, threads, rows_of<Out>(args.out));
        };
        if constexpr (sizeof(In) == 2 && sizeof(Out) == 2) {
          if (packed && rows >= kManyRows && fits_few(norm)) {
            const int launched = 32 * ((threads / 32 + kManySlots - 1) / kManySlots);
            return norm.n <= threads * 4 ? launch(add_rms_norm_kernel<In, Residual, Out, kManySlots, 1, 4>, launched)
                                         : launch(add_rms_norm_kernel<In, Residual, Out, kManySlots, 2, 4>, launched);
          }
        }
        launch(!packed          ? add_rms_norm_kernel<In, Residual, Out, 1, kMostPacks, 1>
               : fits_few(norm) ? add_rms_norm_kernel<In, Residual, Out, 1, kFewPacks, 4>
                                : add_rms_norm_kernel<In, Residual, Out, 1, kMostPacks, 4>,
               threads);
      });
    });
  });
}

}  // namespace octavo::cuda
