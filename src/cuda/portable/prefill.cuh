// Prefill: a block takes 128 or 192 rows of one sequence and KV head, tokens and heads of the group packed (row = token
// * group + head), 16 or 32 rows a warp, over the pages that any of them sees. A warp leaves out pages that none of its
// rows sees.
#pragma once

#include "cuda/portable/decode.cuh"

namespace octavo::cuda::portable {

// A block's warps, and how a warp shares what it reads: two tiles of rows halve what is read and unpacked for each, and
// have two chains of sums and weights that wait for each other's results; they take as many registers as there are for
// eight warps. Wide heads have no room for that, nor has shared memory that small GPUs give for bfloat16 of 128.
template <int kWidth, KvElem kKey, KvElem kValue>
struct PrefillShape {
  static constexpr int kTiles = kWidth == 64 || (kWidth == 128 && is_8bit(kKey)) ? 2 : 1;
  static constexpr int kWarps = kTiles == 2 ? 4 : kWidth == 128 ? 12 : 8;
  static constexpr int kResident = kTiles == 2 ? 2 : 1;  // blocks that share a processor
  static constexpr int kBlocks = kWidth == 64 ? 8 : 4;   // of eight tokens at a time: scores that fit into registers
  static constexpr int kRows = 16 * kTiles * kWarps;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStages = kWidth != 128 && PageImage<kWidth, kKey, kValue>::kBytes <= 33 * 1024 ? 3 : 2;
  static constexpr int kRingBytes = PageImage<kWidth, kKey, kValue>::kBytes * kStages;
  using Rows = WarpRows<kWidth, kKey, kValue, kTiles, kWidth == 256 || (kWidth == 128 && kTiles == 2)>;
  static constexpr int kSharedBytes = kRingBytes + kWarps * Rows::kQueryBytes;
};

// What a block of rows sees.
struct PrefillTile {
  int seq, first_token, num_rows, kv_head;
  int first_page, num_pages;
  int offset;  // the position of the sequence's row 0

  __device__ PrefillTile(const AttentionParams& p, const PrefillItem& item, int tile_rows) {
    seq = item.seq;
    kv_head = blockIdx.x;
    first_token = p.query_start[seq];
    const int length = p.query_start[seq + 1] - first_token;
    num_rows = length * p.group;
    offset = p.context[seq] - length;
    const int seen_from = p.window > 0 ? max(0, position_of(p, item.first_row) - p.window + 1) : 0;
    first_page = seen_from / kPageTokens;
    num_pages = position_of(p, item.first_row + tile_rows - 1) / kPageTokens + 1 - first_page;
  }
  __device__ int position_of(const AttentionParams& p, int r) const { return offset + min(r, num_rows - 1) / p.group; }
  __device__ const __nv_bfloat16* query_row(const AttentionParams& p, int r) const {
    return r >= num_rows ? nullptr
                         : p.query + (first_token + r / p.group) * p.query_token_stride +
                               (kv_head * p.group + r % p.group) * p.query_head_stride;
  }
};

// Where the rows of one warp stand: positions in their sequence.
template <int kTiles>
struct WarpSpan {
  int first_row;
  int position[kTiles][2];  // of this lane's rows
  int lowest, highest;      // -1: none of them exists

  __device__ WarpSpan(const AttentionParams& p, const PrefillTile& tile, const PrefillItem& item) {
    first_row = item.first_row + threadIdx.x / 32 * 16 * kTiles;
#pragma unroll
    for (int of = 0; of < kTiles; ++of)
#pragma unroll
      for (int i = 0; i < 2; ++i) position[of][i] = tile.position_of(p, row(of, i));
    lowest = tile.position_of(p, first_row);
    highest = first_row >= tile.num_rows ? -1 : tile.position_of(p, first_row + 16 * kTiles - 1);
  }
  __device__ int row(int of, int i) const {
    return first_row + 16 * of + 8 * i + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  __device__ bool sees(const AttentionParams& p, int page_start) const {
    return page_start <= highest && (p.window == 0 || page_start + kPageTokens > lowest - p.window + 1);
  }
  __device__ bool sees_all(const AttentionParams& p, int page_start) const {
    return page_start + kPageTokens - 1 <= lowest && (p.window == 0 || page_start > highest - p.window);
  }
};

template <int kBlocks, class Rows, class Span>
__device__ void take_page(Rows& rows, const std::byte* page, int page_start, const AttentionParams& p,
                          const Span& span) {
  const bool masked = !span.sees_all(p, page_start);
  const auto seen = [&](int of, int i) {
    const int end = span.position[of][i] + 1 - page_start;
    return make_int2(p.window > 0 ? end - p.window : 0, end);
  };
#pragma unroll 1
  for (int place = 0; place < kPageTokens; place += 8 * kBlocks) rows.template take<kBlocks>(page, place, masked, seen);
}

template <int kTiles, int kWidth, class Rows>
__device__ void store_rows(const AttentionParams& p, Rows& rows, const PrefillTile& tile, int first_row) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  const int c = threadIdx.x % 4;
  rows.reduce();
#pragma unroll
  for (int of = 0; of < kTiles; ++of)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first_row + 16 * of + 8 * i + static_cast<int>(threadIdx.x) % 32 / 4;
      if (row >= tile.num_rows) continue;
      const int head = tile.kv_head * p.group + row % p.group;
      const float factor = rows.unit * value_scale /
                           (rows.weight[of][2 * i] + sink_weight(p, head, rows.maximum[of][i], Rows::kWeightBits));
      __nv_bfloat16* to = p.out + (tile.first_token + row / p.group) * p.out_token_stride + head * p.out_head_stride;
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n)
        if (8 * n < p.layout.width)
          *reinterpret_cast<__nv_bfloat162*>(to + 8 * n + 2 * c) =
              __floats2bfloat162_rn(rows.sums[of][n][2 * i] * factor, rows.sums[of][n][2 * i + 1] * factor);
    }
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(PrefillShape<kWidth, kKey, kValue>::kThreads,
                                  PrefillShape<kWidth, kKey, kValue>::kResident)
    prefill_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = PrefillShape<kWidth, kKey, kValue>;
  using Rows = typename Shape::Rows;
  extern __shared__ __align__(128) std::byte shared[];
  if (static_cast<int>(blockIdx.y) >= p.plan.counts[1]) return;
  const PrefillItem item = p.plan.prefills[blockIdx.y];
  const PrefillTile tile(p, item, Shape::kRows);
  const WarpSpan<Shape::kTiles> span(p, tile, item);
  PageRing<kWidth, kKey, kValue, Shape::kStages, 1, Shape::kThreads> ring(p, shared);
  const std::int32_t* table = ring.table_of(p, tile.seq, tile.first_page);
  ring.start(table, ring.numbers_of(table, tile.num_pages), tile.kv_head, tile.num_pages);
  Rows rows;
  rows.start([&](int of, int i) { return tile.query_row(p, span.row(of, i)); }, p.layout.width,
             ScoreRule(p, tile.kv_head), shared + Shape::kRingBytes + threadIdx.x / 32 * Rows::kQueryBytes, 1);
  for (int i = 0; i < tile.num_pages; ++i) {
    const int page_start = (tile.first_page + i) * kPageTokens;
    const std::byte* page = ring.wait();
    if (span.sees(p, page_start)) take_page<Shape::kBlocks>(rows, page, page_start, p, span);
  }
  const PrefillItem& again = p.plan.prefills[blockIdx.y];  // not kept in registers all the way
  store_rows<Shape::kTiles, kWidth>(p, rows, PrefillTile(p, again, Shape::kRows),
                                    again.first_row + threadIdx.x / 32 * 16 * Shape::kTiles);
}

}  // namespace octavo::cuda::portable
