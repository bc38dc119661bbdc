// Decode: one token a sequence. A block walks over a list of splits; the heads of a group are the rows of its tile, and
// each of its four warps takes 16 tokens of every page. At the end of a split the warps are merged in shared memory;
// the block that finishes a sequence's last split merges all of them, in their order whoever came last.
#pragma once

#include "cuda/portable/page_ring.cuh"
#include "cuda/portable/warp_rows.cuh"

namespace octavo::cuda::portable {

constexpr int kDecodeWarps = 4;
constexpr int kDecodeThreads = 32 * kDecodeWarps;

constexpr int page_image_bytes(int width, KvElem key, KvElem value) {
  return kPageTokens * width * (elem_bytes(key) + elem_bytes(value)) +
         2 * kPageTokens * ((key == KvElem::int8) + (value == KvElem::int8));
}
constexpr int decode_stages(int width, KvElem key, KvElem value) {
  const int stages = 72 * 1024 / page_image_bytes(width, key, value);
  return stages < 2 ? 2 : stages > 4 ? 4 : stages;
}
// Sums of four warps, rows apart by four numbers more than they hold; and their maxima and weights.
constexpr int decode_merge_bytes(int width) { return kDecodeWarps * kDecodeRows * ((width + 4) + 2) * 4; }
constexpr int decode_shared_bytes(int width, KvElem key, KvElem value) {
  const int ring = page_image_bytes(width, key, value) * decode_stages(width, key, value);
  return ring > decode_merge_bytes(width) ? ring : decode_merge_bytes(width);
}

template <int kWidth>
struct DecodeMerge {
  float sums[kDecodeWarps][kDecodeRows][kWidth + 4];
  float maximum[kDecodeWarps][kDecodeRows];
  float weight[kDecodeWarps][kDecodeRows];
};

// Where one block's work goes.
struct DecodeTile {
  int seq, kv_head, split, splits, first_head, rows;
};

__device__ inline float sink_weight(const AttentionParams& p, int head, float maximum, float weight_bits) {
  return p.sinks == nullptr ? 0.0f : power_of_two(p.sinks[head] * kLog2e - maximum + weight_bits);
}

template <class Rows, int kWidth>
__device__ void store_warp(const Rows& rows, DecodeMerge<kWidth>& merge) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      *reinterpret_cast<float2*>(&merge.sums[warp][g + 8 * row][8 * n + 2 * c]) =
          make_float2(rows.sums[n][2 * row], rows.sums[n][2 * row + 1]);
    if (c == 0) merge.maximum[warp][g + 8 * row] = rows.maximum[row];
    if (c == 0) merge.weight[warp][g + 8 * row] = rows.weight[row];
  }
}

// The warps' sums as one; the result itself where a sequence has one split, else a partial result.
template <int kWidth>
__device__ void merge_warps(const AttentionParams& p, const DecodeTile& tile, const DecodeMerge<kWidth>& merge,
                            float weight_bits) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  for (int i = threadIdx.x; i < tile.rows * kWidth; i += kDecodeThreads) {
    const int row = i / kWidth, d = i % kWidth, head = tile.first_head + row;
    float maximum = merge.maximum[0][row];
#pragma unroll
    for (int warp = 1; warp < kDecodeWarps; ++warp) maximum = fmaxf(maximum, merge.maximum[warp][row]);
    float sum = 0.0f, weight = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      const float factor = power_of_two(merge.maximum[warp][row] - maximum);
      sum += factor * merge.sums[warp][row][d];
      weight += factor * merge.weight[warp][row];
    }
    if (tile.splits == 1) {
      weight += sink_weight(p, head, maximum, weight_bits);
      const std::int64_t token = p.query_start[tile.seq];
      p.out[token * p.out_token_stride + head * p.out_head_stride + d] = __float2bfloat16(sum * value_scale / weight);
      continue;
    }
    const std::int64_t at = (std::int64_t{tile.seq} * kMaxSplits + tile.split) * p.q_heads + head;
    p.plan.partial[at * kWidth + d] = sum;
    if (d == 0) p.plan.partial_sums[at] = make_float2(maximum, weight);
  }
}

template <int kWidth>
__device__ void merge_splits(const AttentionParams& p, const DecodeTile& tile, float weight_bits) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  for (int i = threadIdx.x; i < tile.rows * kWidth; i += kDecodeThreads) {
    const int row = i / kWidth, d = i % kWidth, head = tile.first_head + row;
    const std::int64_t first = std::int64_t{tile.seq} * kMaxSplits * p.q_heads + head;
    float maximum = minus_infinity();
    for (int split = 0; split < tile.splits; ++split)
      maximum = fmaxf(maximum, __ldcg(&p.plan.partial_sums[first + std::int64_t{split} * p.q_heads]).x);
    float sum = 0.0f, weight = sink_weight(p, head, maximum, weight_bits);
    for (int split = 0; split < tile.splits; ++split) {
      const std::int64_t at = first + std::int64_t{split} * p.q_heads;
      const float2 of_split = __ldcg(&p.plan.partial_sums[at]);
      const float factor = power_of_two(of_split.x - maximum);
      sum += factor * __ldcg(&p.plan.partial[at * kWidth + d]);
      weight += factor * of_split.y;
    }
    const std::int64_t token = p.query_start[tile.seq];
    p.out[token * p.out_token_stride + head * p.out_head_stride + d] = __float2bfloat16(sum * value_scale / weight);
  }
}

// Whether this block is the last of its sequence, head and tile; the counter is zero again afterwards.
__device__ inline bool arrived_last(std::uint32_t* counter, int splits) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) + 1 == static_cast<std::uint32_t>(splits);
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kDecodeThreads) decode_kernel(const __grid_constant__ AttentionParams p) {
  using Rows = WarpRows<kWidth, kKey, kValue>;
  extern __shared__ __align__(128) std::byte shared[];
  auto& merge = *reinterpret_cast<DecodeMerge<kWidth>*>(shared);
  PageRing<decode_stages(kWidth, kKey, kValue), kDecodeThreads> ring(p, shared);
  const int row_tiles = (p.group + kDecodeRows - 1) / kDecodeRows;
  const int parts = p.kv_heads * row_tiles;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  const int total = p.plan.counts[0] * parts;
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const DecodeItem item = p.plan.decodes[work / parts];
    const int part = work % parts, row_tile = part % row_tiles;
    const DecodeTile tile{item.seq,
                          part / row_tiles,
                          item.split,
                          item.splits,
                          part / row_tiles * p.group + row_tile * kDecodeRows,
                          min(kDecodeRows, p.group - row_tile * kDecodeRows)};
    ring.start(p, item.seq, tile.kv_head, item.first_page, item.num_pages);
    const __nv_bfloat16* query =
        p.query + p.query_start[item.seq] * p.query_token_stride + tile.first_head * p.query_head_stride;
    const __nv_bfloat16* row_data[2];
    for (int row = 0; row < 2; ++row)
      row_data[row] = g + 8 * row < tile.rows ? query + (g + 8 * row) * p.query_head_stride : nullptr;
    Rows rows;
    rows.start(row_data);
    const float key_scale = p.key_scales != nullptr ? p.key_scales[tile.kv_head] : 1.0f;
    const ScoreRule rule{p.scale * key_scale * (p.soft_cap > 0.0f ? 1.0f : kLog2e), p.soft_cap};
    const int context = p.context[item.seq];
    const int seen_from = p.window > 0 ? max(0, context - p.window) : 0;
    for (int i = 0; i < item.num_pages; ++i) {
      const int page_start = (item.first_page + i) * kPageTokens;
      const int first = seen_from - page_start, end = context - page_start;
      const std::byte* page = ring.wait();
      rows.template take<2>(static_cast<std::uint32_t>(__cvta_generic_to_shared(page)), page, p.layout, 16 * warp,
                            {first, first}, {end, end}, first > 0 || end < kPageTokens, rule);
    }
    rows.reduce();
    wait_copies<0>();
    __syncthreads();
    store_warp<Rows, kWidth>(rows, merge);
    __syncthreads();
    merge_warps<kWidth>(p, tile, merge, Rows::kWeightBits);
    if (tile.splits > 1 && arrived_last(p.plan.arrivals + (std::int64_t{item.seq} * parts + part), tile.splits))
      merge_splits<kWidth>(p, tile, Rows::kWeightBits);
    __syncthreads();
  }
}

}  // namespace octavo::cuda::portable
