// What decodes of one token share: where a block's work goes, and how the splits of a sequence become its result. The
// block that comes last merges them, in their order whoever that is.
#pragma once

#include "cuda/portable/warp_rows.cuh"

namespace octavo::cuda::portable {

// Where one block's work goes. A decode's row is its sequence's number: they come first.
struct DecodeTile {
  DecodeItem item;
  int work;  // a part of an item: the list's, times the parts of each
  int kv_head, first_head, rows;

  __device__ static int row_tiles(const AttentionParams& p) { return (p.group + kDecodeRows - 1) / kDecodeRows; }

  __device__ DecodeTile(const AttentionParams& p, int at) : work(at) {
    const int row_tiles = DecodeTile::row_tiles(p), part = work % parts(p);
    item = p.plan.decodes[place(p)];
    kv_head = part / row_tiles;
    const int first_row = part % row_tiles * kDecodeRows;
    first_head = kv_head * p.group + first_row;
    rows = min(kDecodeRows, p.group - first_row);
  }
  __device__ static int parts(const AttentionParams& p) { return p.kv_heads * row_tiles(p); }
  __device__ int place(const AttentionParams& p) const { return work / parts(p); }
};

__device__ inline float sink_weight(const AttentionParams& p, int head, float maximum, float weight_bits) {
  return p.sinks == nullptr ? 0.0f : power_of_two(p.sinks[head] * kLog2e - maximum + weight_bits);
}

// Partial results to be merged: from a place of the list on, every step-th.
struct Partials {
  int first, count, step;

  __device__ static Partials of_splits(const AttentionParams& p, const DecodeTile& tile) {
    return {tile.place(p) - tile.item.split, tile.item.splits, 1};
  }
};

// Calls put(row, maximum, weight, sums) with what the partial results of a row are together, a warp of kWarps a row. A
// lane has the sums 64 i + 2 lane, + 1. Lanes take a partial result each for the maxima, then some numbers each over
// all; the first of these are asked for before anything is waited for.
template <int kWidth, int kWarps, class Put>
__device__ void merge_partials(const AttentionParams& p, const DecodeTile& tile, const Partials& of, const Put& put) {
  constexpr int kTwos = kWidth / 64, kAhead = kTwos <= 2 ? 8 : 16 / kTwos;
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < tile.rows; row += kWarps) {
    const std::int64_t first = std::int64_t{of.first} * p.q_heads + tile.first_head + row;
    const std::int64_t step = std::int64_t{of.step} * p.q_heads;
    float2 mine = make_float2(minus_infinity(), 0.0f), ahead[kAhead][kTwos];
    const auto ask = [&](int begin) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float* from = p.plan.partial + (first + min(begin + i, of.count - 1) * step) * kWidth;
#pragma unroll
        for (int k = 0; k < kTwos; ++k) ahead[i][k] = __ldcg(reinterpret_cast<const float2*>(from) + 32 * k + lane);
      }
    };
    if (lane < of.count) mine = __ldcg(&p.plan.partial_sums[first + lane * step]);
    ask(0);
    float maximum = mine.x;
    for (int distance = 16; distance > 0; distance /= 2)
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, distance));
    const float factor = power_of_two(mine.x - maximum);
    float weight = factor * mine.y;
    for (int distance = 16; distance > 0; distance /= 2) weight += __shfl_xor_sync(~0u, weight, distance);
    float2 sums[kTwos] = {};
    for (int begin = 0; begin < of.count; begin += kAhead) {
      if (begin > 0) ask(begin);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float of_all = __shfl_sync(~0u, factor, begin + i);  // beyond the last: zero
#pragma unroll
        for (int k = 0; k < kTwos; ++k) {
          sums[k].x += of_all * ahead[i][k].x;
          sums[k].y += of_all * ahead[i][k].y;
        }
      }
    }
    put(row, maximum, weight, sums);
  }
}

// The result of a sequence and tile of heads.
template <int kWidth, int kWarps>
__device__ void merge_splits(const AttentionParams& p, const DecodeTile& tile, const Partials& of, float weight_bits) {
  static_assert(kMaxSplits == 32, "a lane each");
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  merge_partials<kWidth, kWarps>(p, tile, of, [&](int row, float maximum, float weight, const auto& sums) {
    const int head = tile.first_head + row, lane = threadIdx.x % 32;
    auto* to = reinterpret_cast<__nv_bfloat162*>(p.out + tile.item.seq * p.out_token_stride + head * p.out_head_stride);
    const float back = value_scale / (weight + sink_weight(p, head, maximum, weight_bits));
#pragma unroll
    for (int k = 0; k < kWidth / 64; ++k)
      if (2 * (32 * k + lane) < p.layout.width)
        to[32 * k + lane] = __floats2bfloat162_rn(sums[k].x * back, sums[k].y * back);
  });
}

__device__ inline std::uint32_t count_up(std::uint32_t* counter) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// Whether this block is the last of its sequence, head and tile; the counter is zero again afterwards. The barrier
// gathers the block's writes, so one thread's release and acquire speak for all.
__device__ inline bool arrived_last(std::uint32_t* counter, int splits) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    last = count_up(counter) + 1 == static_cast<std::uint32_t>(splits);
    if (last) *counter = 0;
  }
  __syncthreads();
  return last;
}

}  // namespace octavo::cuda::portable
