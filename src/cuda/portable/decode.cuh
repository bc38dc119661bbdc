// Decode: one token a sequence. A block walks over a list of splits; the heads of a group are the rows of its tile, and
// each of its four warps takes 16 tokens of every page. At the end of a split the warps are merged in shared memory;
// the block that finishes a sequence's last split merges all of them, in their order whoever came last.
#pragma once

#include "cuda/portable/page_ring.cuh"
#include "cuda/portable/split_merge.cuh"

namespace octavo::cuda::portable {

constexpr int kDecodeWarps = 4;
constexpr int kDecodeThreads = 32 * kDecodeWarps;

template <int kWidth, KvElem kKey, KvElem kValue>
using DecodeRows = WarpRows<kWidth, kKey, kValue, 1, true>;

// Small pages come two at a time where that leaves as many blocks to a processor: a warp then has 32 tokens between two
// barriers.
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int decode_pages() {
  return kWidth <= 128 && is_8bit(kKey) && is_8bit(kValue) ? 2 : 1;
}
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int decode_stages() {
  const int most = kWidth <= 64 ? 40 : 67;  // KiB: four and three blocks a processor
  const int stages = most * 1024 / (PageImage<kWidth, kKey, kValue>::kBytes * decode_pages<kWidth, kKey, kValue>());
  return stages < 2 ? 2 : stages > 4 ? 4 : stages;
}
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int decode_ring_bytes() {
  return PageImage<kWidth, kKey, kValue>::kBytes * decode_pages<kWidth, kKey, kValue>() *
         decode_stages<kWidth, kKey, kValue>();
}

// Blocks that a processor's registers have room for.
constexpr int decode_blocks(int width) { return width <= 64 ? 4 : width <= 128 ? 3 : 2; }

// What the warps have, [warp, row] of as many rows as the tile has: sums, rows apart by four numbers more than they
// hold, then maxima and weights. Behind the ring, so that the next split's pages arrive while one is merged. Before,
// queries are there.
constexpr int decode_merge_bytes(int width, int rows) { return kDecodeWarps * rows * (width + 4 + 2) * 4; }
template <int kWidth>
class DecodeMerge {
 public:
  __device__ DecodeMerge(std::byte* shared, int rows) : numbers_(reinterpret_cast<float*>(shared)), rows_(rows) {}
  __device__ float& sum(int warp, int row, int d) const { return numbers_[(warp * rows_ + row) * (kWidth + 4) + d]; }
  __device__ float& maximum(int warp, int row) const { return sum(kDecodeWarps, 0, warp * rows_ + row); }
  __device__ float& weight(int warp, int row) const { return maximum(kDecodeWarps + warp, row); }

 private:
  float* numbers_;
  int rows_;
};

template <class Rows, int kWidth>
__device__ void store_warp(const Rows& rows, int num_rows, const DecodeMerge<kWidth>& merge) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = g + 8 * i;
    if (row >= num_rows) continue;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      *reinterpret_cast<float2*>(&merge.sum(warp, row, 8 * n + 2 * c)) =
          make_float2(rows.sums[0][n][2 * i] * rows.unit, rows.sums[0][n][2 * i + 1] * rows.unit);
    if (c == 0) merge.maximum(warp, row) = rows.maximum[0][i];
    if (c == 0) merge.weight(warp, row) = rows.weight[0][2 * i];
  }
}

// The warps' sums as one; the result itself where a sequence has one split, else a partial result.
template <int kWidth>
__device__ void merge_warps(const AttentionParams& p, const DecodeTile& tile, const DecodeMerge<kWidth>& merge,
                            float weight_bits) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  for (int i = threadIdx.x; i < tile.rows * kWidth; i += kDecodeThreads) {
    const int row = i / kWidth, d = i % kWidth, head = tile.first_head + row;
    float maximum = merge.maximum(0, row);
#pragma unroll
    for (int warp = 1; warp < kDecodeWarps; ++warp) maximum = fmaxf(maximum, merge.maximum(warp, row));
    float sum = 0.0f, weight = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      const float factor = power_of_two(merge.maximum(warp, row) - maximum);
      sum += factor * merge.sum(warp, row, d);
      weight += factor * merge.weight(warp, row);
    }
    if (tile.item.splits == 1) {
      if (d >= p.layout.width) continue;
      weight += sink_weight(p, head, maximum, weight_bits);
      p.out[tile.item.seq * p.out_token_stride + head * p.out_head_stride + d] =
          __float2bfloat16(sum * value_scale / weight);
      continue;
    }
    const std::int64_t at = std::int64_t{tile.place(p)} * p.q_heads + head;
    p.plan.partial[at * kWidth + d] = sum;
    if (d == 0) p.plan.partial_sums[at] = make_float2(maximum, weight);
  }
}

// Reads one split's pages; `between` is called once, when the first page has arrived.
template <int kPages, class Rows, class Ring, class Between>
__device__ void take_split(Rows& rows, Ring& ring, const AttentionParams& p, const DecodeTile& tile,
                           std::byte* shared_query, const Between& between) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  const __nv_bfloat16* query = p.query + tile.item.seq * p.query_token_stride + tile.first_head * p.query_head_stride;
  const auto row_of = [&](int, int i) {
    return g + 8 * i < tile.rows ? query + (g + 8 * i) * p.query_head_stride : nullptr;
  };
  rows.start(row_of, p.layout.width, ScoreRule(p, tile.kv_head), shared_query, kDecodeWarps);
  const int seen_from = p.window > 0 ? max(0, tile.item.context - p.window) : 0;
  constexpr int kBlocks = 2 * kPages;
  const int page_of_stage = warp * kPages / kDecodeWarps, place = warp * 8 * kBlocks % kPageTokens;
  for (int i = 0; i < tile.item.num_pages; i += kPages) {
    const int page_start = (tile.item.first_page + i + page_of_stage) * kPageTokens;
    const int first = seen_from - page_start, end = tile.item.context - page_start;
    const std::byte* stage = ring.wait();
    if (i == 0) between();
    if (i + page_of_stage < tile.item.num_pages)
      rows.template take<kBlocks>(stage + page_of_stage * Ring::kBytes, place, first > 0 || end < kPageTokens,
                                  [&](int, int) { return make_int2(first, end); });
  }
  rows.reduce();
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kDecodeThreads, decode_blocks(kWidth))
    decode_kernel(const __grid_constant__ AttentionParams p) {
  using Rows = DecodeRows<kWidth, kKey, kValue>;
  constexpr int kPages = decode_pages<kWidth, kKey, kValue>();
  using Ring = PageRing<kWidth, kKey, kValue, decode_stages<kWidth, kKey, kValue>(), kPages, kDecodeThreads>;
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* const behind_ring = shared + decode_ring_bytes<kWidth, kKey, kValue>();
  const int parts = DecodeTile::parts(p);
  DecodeTile tile(p, blockIdx.x);  // some item, also beyond the list's end
  const int total = p.plan.counts[0] * parts;
  if (static_cast<int>(blockIdx.x) >= total) return;
  Ring ring(p, shared);
  const std::int32_t* table = Ring::table_of(p, tile.item.seq, tile.item.first_page);
  ring.start(table, Ring::numbers_of(table, tile.item.num_pages), tile.kv_head, tile.item.num_pages);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const bool more = work + static_cast<int>(gridDim.x) < total;
    const DecodeTile next(p, more ? work + gridDim.x : work);
    Rows rows;
    std::int32_t numbers = 0;
    const auto read_next = [&] {
      numbers = Ring::numbers_of(Ring::table_of(p, next.item.seq, next.item.first_page), next.item.num_pages);
    };
    take_split<kPages>(rows, ring, p, tile, behind_ring, read_next);
    __syncthreads();
    if (more)
      ring.start(Ring::table_of(p, next.item.seq, next.item.first_page), numbers, next.kv_head, next.item.num_pages);
    const DecodeMerge<kWidth> merge(behind_ring, tile.rows);
    store_warp<Rows, kWidth>(rows, tile.rows, merge);
    __syncthreads();
    merge_warps<kWidth>(p, tile, merge, Rows::kWeightBits);
    if (tile.item.splits > 1 &&
        arrived_last(p.plan.arrivals + (std::int64_t{tile.item.seq} * parts + tile.work % parts), tile.item.splits))
      merge_splits<kWidth, kDecodeWarps>(p, tile, Partials::of_splits(p, tile), Rows::kWeightBits);
    __syncthreads();  // queries take the place of what was merged
    tile = next;
  }
}

}  // namespace octavo::cuda::portable
