// Prefill: a block takes 128 rows of one sequence and KV head, tokens and heads of the group packed (row = token *
// group + head), 16 rows a warp, over the pages that any of them sees. A warp leaves out pages that none of its rows
// sees.
#pragma once

#include "cuda/portable/decode.cuh"

namespace octavo::cuda::portable {

constexpr int kPrefillWarps = kTileRows / 16;
constexpr int kPrefillThreads = 32 * kPrefillWarps;

constexpr int prefill_stages(int width, KvElem key, KvElem value) {
  return page_image_bytes(width, key, value) <= 34 * 1024 ? 3 : 2;
}
constexpr int prefill_shared_bytes(int width, KvElem key, KvElem value) {
  return page_image_bytes(width, key, value) * prefill_stages(width, key, value);
}

// The rows of one warp, as positions in their sequence.
struct WarpSpan {
  int position[2];  // of this lane's rows
  int lowest, highest;
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
      *reinterpret_cast<__nv_bfloat162*>(to + 8 * n + 2 * c) =
          __floats2bfloat162_rn(rows.sums[n][2 * i] * factor, rows.sums[n][2 * i + 1] * factor);
  }
}

template <int kWidth, class Rows>
__device__ void take_page(Rows& rows, const std::byte* page, int page_start, const AttentionParams& p,
                          const WarpSpan& span, const ScoreRule& rule) {
  constexpr int kBlocks = kWidth <= 128 ? 8 : 4;  // scores beside wide sums would not fit into registers
  const bool masked =
      page_start + kPageTokens - 1 > span.lowest || (p.window > 0 && page_start <= span.highest - p.window);
  int first[2], end[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    first[i] = p.window > 0 ? span.position[i] - p.window + 1 - page_start : 0;
    end[i] = span.position[i] + 1 - page_start;
  }
#pragma unroll
  for (int place = 0; place < kPageTokens; place += 8 * kBlocks)
    rows.template take<kBlocks>(static_cast<std::uint32_t>(__cvta_generic_to_shared(page)), page, p.layout, place,
                                first, end, masked, rule);
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kPrefillThreads) prefill_kernel(const __grid_constant__ AttentionParams p) {
  using Rows = WarpRows<kWidth, kKey, kValue>;
  extern __shared__ __align__(128) std::byte shared[];
  if (static_cast<int>(blockIdx.y) >= p.plan.counts[1]) return;
  const PrefillItem item = p.plan.prefills[blockIdx.y];
  const int kv_head = blockIdx.x;
  const int first_token = p.query_start[item.seq];
  const int length = p.query_start[item.seq + 1] - first_token;
  const int num_rows = length * p.group;
  const int offset = p.context[item.seq] - length;  // the position of the sequence's row 0
  const int warp_row = item.first_row + threadIdx.x / 32 * 16;
  const int row[2] = {warp_row + static_cast<int>(threadIdx.x) % 32 / 4,
                      warp_row + static_cast<int>(threadIdx.x) % 32 / 4 + 8};
  const auto position_of = [&](int r) { return offset + min(r, num_rows - 1) / p.group; };
  const WarpSpan span{{position_of(row[0]), position_of(row[1])}, position_of(warp_row), position_of(warp_row + 15)};
  const int seen_from = p.window > 0 ? max(0, position_of(item.first_row) - p.window + 1) : 0;
  const int first_page = seen_from / kPageTokens;
  const int num_pages = position_of(item.first_row + kTileRows - 1) / kPageTokens + 1 - first_page;
  PageRing<page_image_bytes(kWidth, kKey, kValue), prefill_stages(kWidth, kKey, kValue), kPrefillThreads> ring(p,
                                                                                                               shared);
  const std::int32_t* table = ring.table_of(p, item.seq, first_page);
  ring.start(table, table[0], kv_head, num_pages);
  const __nv_bfloat16* row_data[2];
  for (int i = 0; i < 2; ++i)
    row_data[i] = row[i] >= num_rows ? nullptr
                                     : p.query + (first_token + row[i] / p.group) * p.query_token_stride +
                                           (kv_head * p.group + row[i] % p.group) * p.query_head_stride;
  Rows rows;
  rows.start(row_data);
  const float key_scale = p.key_scales != nullptr ? p.key_scales[kv_head] : 1.0f;
  const ScoreRule rule{p.scale * key_scale * (p.soft_cap > 0.0f ? 1.0f : kLog2e), p.soft_cap};
  for (int i = 0; i < num_pages; ++i) {
    const int page_start = (first_page + i) * kPageTokens;
    const std::byte* page = ring.wait();
    const bool seen =
        page_start <= span.highest && (p.window == 0 || page_start + kPageTokens > span.lowest - p.window + 1);
    if (seen && warp_row < num_rows) take_page<kWidth>(rows, page, page_start, p, span, rule);
  }
  store_rows<Rows, kWidth>(p, rows, kv_head, first_token, row, num_rows);
}

}  // namespace octavo::cuda::portable
