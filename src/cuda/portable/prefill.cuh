// Prefill: a block takes 128 or 192 rows of one sequence and KV head, tokens and heads of the group packed (row = token
// * group + head), 16 rows a warp, over the pages that any of them sees. A warp leaves out pages that none of its rows
// sees.
#pragma once

#include "cuda/portable/decode.cuh"

namespace octavo::cuda::portable {

// As many as fit into a processor's registers: the more warps, the less they wait for each other's results.
constexpr int prefill_rows(int width) { return width == 128 ? 192 : 128; }
constexpr int prefill_threads(int width) { return 2 * prefill_rows(width); }

// Where int8 has to become float16 in too many steps for every warp to take them.
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr bool prefill_unpacks() {
  return kWidth <= 128 && is_8bit(kKey) && is_8bit(kValue) && (kKey == KvElem::int8 || kValue == KvElem::int8);
}
template <int kWidth, KvElem kKey, KvElem kValue>
using PrefillRows = WarpRows<kWidth, kKey, kValue, prefill_unpacks<kWidth, kKey, kValue>(), (kWidth > 128)>;

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int prefill_stages() {
  return PageImage<kWidth, kKey, kValue>::kBytes <= 33 * 1024 && !prefill_unpacks<kWidth, kKey, kValue>() ? 3 : 2;
}
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int prefill_ring_bytes() {
  return PageImage<kWidth, kKey, kValue>::kBytes * prefill_stages<kWidth, kKey, kValue>();
}
template <int kWidth, KvElem kKey, KvElem kValue>
constexpr int prefill_shared_bytes() {
  constexpr int kRing = prefill_ring_bytes<kWidth, kKey, kValue>();
  if constexpr (prefill_unpacks<kWidth, kKey, kValue>())
    return kRing + 2 * UnpackedImage<kWidth, kKey, kValue>::kBytes;
  else
    return kRing + prefill_rows(kWidth) / 16 * PrefillRows<kWidth, kKey, kValue>::kQueryBytes;
}

// The rows of one warp, as positions in their sequence.
struct WarpSpan {
  int position[2];      // of this lane's rows
  int lowest, highest;  // -1: none of them exists
};

template <class Rows, int kWidth>
__device__ void store_rows(const AttentionParams& p, Rows& rows, int kv_head, int first_token, const int (&row)[2],
                           int num_rows) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[kv_head] : 1.0f;
  const int c = threadIdx.x % 4;
  rows.reduce();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (row[i] >= num_rows) continue;
    const int head = kv_head * p.group + row[i] % p.group;
    const float factor =
        rows.unit * value_scale / (rows.weight[i] + sink_weight(p, head, rows.maximum[i], Rows::kWeightBits));
    __nv_bfloat16* to = p.out + (first_token + row[i] / p.group) * p.out_token_stride + head * p.out_head_stride;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      if (8 * n < p.layout.width)
        *reinterpret_cast<__nv_bfloat162*>(to + 8 * n + 2 * c) =
            __floats2bfloat162_rn(rows.sums[n][2 * i] * factor, rows.sums[n][2 * i + 1] * factor);
  }
}

template <int kWidth, class Rows>
__device__ void take_page(Rows& rows, const std::byte* page, int page_start, const AttentionParams& p,
                          const WarpSpan& span) {
  const bool masked =
      page_start + kPageTokens - 1 > span.lowest || (p.window > 0 && page_start <= span.highest - p.window);
  int first[2], end[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    first[i] = p.window > 0 ? span.position[i] - p.window + 1 - page_start : 0;
    end[i] = span.position[i] + 1 - page_start;
  }
  constexpr int kBlocks = 4;  // as many scores as fit into registers
#pragma unroll 1
  for (int place = 0; place < kPageTokens; place += 8 * kBlocks)
    rows.template take<kBlocks>(page, place, first, end, masked);
}

// What a block of rows sees, and where a warp's rows stand.
struct PrefillTile {
  int seq, first_token, num_rows, kv_head;
  int first_page, num_pages;
  int offset;  // the position of the sequence's row 0
  int row[2];  // this lane's
  int warp_row;
  WarpSpan span;

  __device__ PrefillTile(const AttentionParams& p, const PrefillItem& item, int tile_rows) {
    seq = item.seq;
    kv_head = blockIdx.x;
    first_token = p.query_start[seq];
    const int length = p.query_start[seq + 1] - first_token;
    num_rows = length * p.group;
    offset = p.context[seq] - length;
    warp_row = item.first_row + threadIdx.x / 32 * 16;
    row[0] = warp_row + static_cast<int>(threadIdx.x) % 32 / 4;
    row[1] = row[0] + 8;
    span = {{position_of(p, row[0]), position_of(p, row[1])}, position_of(p, warp_row), position_of(p, warp_row + 15)};
    if (warp_row >= num_rows) span.highest = -1;
    const int seen_from = p.window > 0 ? max(0, position_of(p, item.first_row) - p.window + 1) : 0;
    first_page = seen_from / kPageTokens;
    num_pages = position_of(p, item.first_row + tile_rows - 1) / kPageTokens + 1 - first_page;
  }
  __device__ int position_of(const AttentionParams& p, int r) const { return offset + min(r, num_rows - 1) / p.group; }
  __device__ bool sees(const AttentionParams& p, int page_start) const {
    return page_start <= span.highest && (p.window == 0 || page_start + kPageTokens > span.lowest - p.window + 1);
  }
  __device__ const __nv_bfloat16* query_row(const AttentionParams& p, int r) const {
    return r >= num_rows ? nullptr
                         : p.query + (first_token + r / p.group) * p.query_token_stride +
                               (kv_head * p.group + r % p.group) * p.query_head_stride;
  }
};

// All pages as they come.
template <int kWidth, class Rows, class Ring>
__device__ void walk(Rows& rows, Ring& ring, const AttentionParams& p, const PrefillTile& tile) {
  for (int i = 0; i < tile.num_pages; ++i) {
    const int page_start = (tile.first_page + i) * kPageTokens;
    const std::byte* page = ring.wait();
    if (tile.sees(p, page_start)) take_page<kWidth>(rows, page, page_start, p, tile.span);
  }
}

// All pages, each unpacked by the whole block while the one before is worked on.
template <int kWidth, KvElem kKey, KvElem kValue, class Rows, class Ring>
__device__ void walk_unpacked(Rows& rows, Ring& ring, std::byte* unpacked, const AttentionParams& p,
                              const PrefillTile& tile) {
  constexpr int kBytes = UnpackedImage<kWidth, kKey, kValue>::kBytes;
  constexpr int kThreads = prefill_threads(kWidth);
  float unit = rows.unit;
  const auto image = [&](int page) { return unpacked + page % 2 * kBytes; };
  const int end = tile.first_page + tile.num_pages;
  unpack_page<kWidth, kKey, kValue, kThreads>(ring.wait(), image(tile.first_page), unit);
  for (int page = tile.first_page; page < end; ++page) {
    if (page + 1 < end) {
      unpack_page<kWidth, kKey, kValue, kThreads>(ring.wait(), image(page + 1), unit);
    } else {
      __syncthreads();
    }
    const int page_start = page * kPageTokens;
    if (tile.sees(p, page_start)) take_page<kWidth>(rows, image(page), page_start, p, tile.span);
  }
}

// Blocks of narrow heads share a processor.
template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(prefill_threads(kWidth), kWidth <= 64 ? 2 : 1)
    prefill_kernel(const __grid_constant__ AttentionParams p) {
  using Rows = PrefillRows<kWidth, kKey, kValue>;
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* const behind_ring = shared + prefill_ring_bytes<kWidth, kKey, kValue>();
  if (static_cast<int>(blockIdx.y) >= p.plan.counts[1]) return;
  const PrefillTile tile(p, p.plan.prefills[blockIdx.y], prefill_rows(kWidth));
  PageRing<kWidth, kKey, kValue, prefill_stages<kWidth, kKey, kValue>(), 1, prefill_threads(kWidth)> ring(p, shared);
  const std::int32_t* table = ring.table_of(p, tile.seq, tile.first_page);
  ring.start(table, ring.numbers_of(table, tile.num_pages), tile.kv_head, tile.num_pages);
  Rows rows;
  rows.start({tile.query_row(p, tile.row[0]), tile.query_row(p, tile.row[1])}, p.layout.width,
             ScoreRule(p, tile.kv_head), behind_ring + threadIdx.x / 32 * Rows::kQueryBytes, 1);
  if constexpr (prefill_unpacks<kWidth, kKey, kValue>()) {
    walk_unpacked<kWidth, kKey, kValue>(rows, ring, behind_ring, p, tile);
  } else {
    walk<kWidth>(rows, ring, p, tile);
  }
  const PrefillTile same(p, p.plan.prefills[blockIdx.y],
                         prefill_rows(kWidth));  // read again: not kept in registers all the way
  store_rows<Rows, kWidth>(p, rows, same.kv_head, same.first_token, same.row, same.num_rows);
}

}  // namespace octavo::cuda::portable
