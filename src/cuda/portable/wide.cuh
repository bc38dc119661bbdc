// Attention of wide heads, both phases: rows of sums would not fit into one warp's registers, so the warps of a block
// share the work by columns.
//
// One tile of K and one of V are in shared memory; the next K arrives while V is summed, the next V while K is
// multiplied. Every kind but bfloat16 of 512 numbers takes under 99 KiB, so that it serves where a block has no more.
#pragma once

#include "cuda/portable/prefill.cuh"
#include "cuda/portable/wide_block.cuh"

namespace octavo::cuda::portable {

// The tiles one after another; K of the first has been asked for. page: the first page's, in its sequence.
template <class Block, class Tiles>
__device__ void walk_wide(Block& block, const Tiles& tiles, int page, float soft_cap) {
  for (int tile = 0; tile < tiles.count(); ++tile) {
    wait_copies<0>();
    __syncthreads();  // K is there, and V of the tile before was summed
    tiles.ask_values(tile);
    block.multiply_keys();
    __syncthreads();
    tiles.ask_keys(tile + 1);
    wait_copies<1>();  // V and scales
    __syncthreads();
    block.weigh(page * kPageTokens + tile * kWideTokens, soft_cap);
    __syncthreads();
    block.multiply_values();
  }
}

// Maxima, weights and units of the rows, for the threads that hold their sums.
template <class Block>
__device__ void keep_rows(const Block& block) {
  if (threadIdx.x % Block::kSharers == 0) {
    block.kept(0, block.mine.row) = block.mine.maximum;
    block.kept(1, block.mine.row) = block.mine.weight;
    block.kept(2, block.mine.row) = block.mine.unit;
  }
  __syncthreads();
}

// Calls put(row, column, two neighbouring sums) for all that this thread holds, in units of 1.
template <class Block, class Put>
__device__ void for_each_sum(const Block& block, const Put& put) {
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
  for (int tile = 0; tile < Block::kRowTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 16 * tile + g + 8 * i;
      const float unit = block.kept(2, row);
#pragma unroll
      for (int n = 0; n < Block::kColumns / 8; ++n)
        put(row, block.first_column() + 8 * n + 2 * c,
            make_float2(block.sums[tile][n][2 * i] * unit, block.sums[tile][n][2 * i + 1] * unit));
    }
}

// A decode's sums: results where the sequence has one split, else partial ones, which the last block merges. kWidth:
// the image's.
template <int kWidth, class Block>
__device__ void put_decode(const AttentionParams& p, const DecodeTile& tile, const Block& block) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  const std::int64_t first = (std::int64_t{tile.item.seq} * kMaxSplits + tile.item.split) * p.q_heads + tile.first_head;
  for_each_sum(block, [&](int row, int d, float2 sum) {
    if (row >= tile.rows) return;
    if (tile.item.splits > 1) {
      *reinterpret_cast<float2*>(p.plan.partial + (first + row) * kWidth + d) = sum;
      return;
    }
    const float weight =
        block.kept(1, row) + sink_weight(p, tile.first_head + row, block.kept(0, row), Block::kWeightBits);
    const float factor = value_scale / weight;
    if (d < p.layout.width)
      *reinterpret_cast<__nv_bfloat162*>(p.out + tile.item.seq * p.out_token_stride +
                                         (tile.first_head + row) * p.out_head_stride + d) =
          __floats2bfloat162_rn(sum.x * factor, sum.y * factor);
  });
  if (tile.item.splits == 1) return;
  if (static_cast<int>(threadIdx.x) < tile.rows)
    p.plan.partial_sums[first + threadIdx.x] = make_float2(block.kept(0, threadIdx.x), block.kept(1, threadIdx.x));
  const int parts = p.kv_heads * DecodeTile::row_tiles(p);
  if (arrived_last(p.plan.arrivals + (std::int64_t{tile.item.seq} * parts + tile.part), tile.item.splits))
    merge_splits<kWidth, kWideWarps>(p, tile, Block::kWeightBits);
}

// The results of a tile of a prefill, whose first row of the sequence's is given.
template <class Block>
__device__ void put_prefill(const AttentionParams& p, const PrefillTile& tile, int first_row, const Block& block) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  for_each_sum(block, [&](int of_tile, int d, float2 sum) {
    const int r = first_row + of_tile;
    if (r >= tile.num_rows || d >= p.layout.width) return;
    const int head = tile.kv_head * p.group + r % p.group;
    const float factor =
        value_scale / (block.kept(1, of_tile) + sink_weight(p, head, block.kept(0, of_tile), Block::kWeightBits));
    *reinterpret_cast<__nv_bfloat162*>(p.out + (tile.first_token + r / p.group) * p.out_token_stride +
                                       head * p.out_head_stride + d) =
        __floats2bfloat162_rn(sum.x * factor, sum.y * factor);
  });
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kWideThreads, 2) wide_decode_kernel(const __grid_constant__ AttentionParams p) {
  using Block = WideBlock<kWidth, kKey, kValue, kDecodeRows>;
  extern __shared__ __align__(128) std::byte shared[];
  const int total = p.plan.counts[0] * p.kv_heads * DecodeTile::row_tiles(p);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const DecodeTile tile(p, work);
    const WideTiles<kWidth, kKey, kValue, kDecodeRows> tiles(p, shared, tile.item.seq, tile.kv_head,
                                                             tile.item.first_page, tile.item.num_pages);
    tiles.ask_keys(0);
    Block block(shared);
    block.mine.position = tile.item.context - 1;
    block.mine.first = p.window > 0 ? tile.item.context - p.window : 0;
    const int head = tile.first_head + block.mine.row;
    block.put_query(block.mine.row < tile.rows
                        ? p.query + tile.item.seq * p.query_token_stride + head * p.query_head_stride
                        : nullptr,
                    p.layout.width, ScoreRule(p, tile.kv_head));
    walk_wide(block, tiles, tile.item.first_page, p.soft_cap);
    __syncthreads();
    keep_rows(block);
    put_decode<kWidth>(p, tile, block);
    __syncthreads();  // the next item's K and queries take this one's place
  }
}

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kWideThreads, 2) wide_prefill_kernel(const __grid_constant__ AttentionParams p) {
  using Block = WideBlock<kWidth, kKey, kValue, kWideTileRows>;
  extern __shared__ __align__(128) std::byte shared[];
  if (static_cast<int>(blockIdx.y) >= p.plan.counts[1]) return;
  const PrefillItem item = p.plan.prefills[blockIdx.y];
  const PrefillTile tile(p, item, kWideTileRows);
  const WideTiles<kWidth, kKey, kValue, kWideTileRows> tiles(p, shared, tile.seq, tile.kv_head, tile.first_page,
                                                             tile.num_pages);
  tiles.ask_keys(0);
  Block block(shared);
  const int row = item.first_row + block.mine.row;
  block.mine.position = tile.position_of(p, row);
  block.mine.first = p.window > 0 ? block.mine.position - p.window + 1 : 0;
  block.put_query(tile.query_row(p, row), p.layout.width, ScoreRule(p, tile.kv_head));
  walk_wide(block, tiles, tile.first_page, p.soft_cap);
  __syncthreads();
  keep_rows(block);
  put_prefill(p, tile, item.first_row, block);
}

}  // namespace octavo::cuda::portable
