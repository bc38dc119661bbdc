// Attention of wide heads, both phases: rows of sums would not fit into one warp's registers, so the warps of a block
// share the work by columns.
//
// One tile of K and one of V are in shared memory. Every kind takes under 99 KiB but chunks over bfloat16 of 512
// numbers, so that it serves where a block has no more.
#pragma once

#include "cuda/portable/prefill.cuh"
#include "cuda/portable/wide_block.cuh"

namespace octavo::cuda::portable {

// The tiles one after another; the first has been asked for. Where K or V lay the next one's comes as soon as it
// was used: K flies while weights are made and V is summed, V while K is multiplied.
template <class Block, class Tiles>
__device__ void walk_wide(Block& block, const Tiles& tiles, float soft_cap) {
#pragma unroll 1
  for (int tile = 0; tile < tiles.count(); ++tile) {
    wait_copies<1>();
    __syncthreads();  // K and scales are there
    block.multiply_keys(tile);
    __syncthreads();
    tiles.ask_keys(tile + 1);
    block.weigh(tile, soft_cap);
    wait_copies<1>();
    __syncthreads();  // V and weights are there
    block.multiply_values(tile);
    __syncthreads();
    tiles.ask_values(tile + 1);
  }
}

// Maxima, weights and units of the rows, for the threads that hold their sums.
template <class Block>
__device__ void keep_rows(const Block& block) {
  float weight = block.mine.weight;
  for (int step = 1; step < Block::kSharers; step *= 2) weight += __shfl_xor_sync(~0u, weight, step);
  if (threadIdx.x % Block::kSharers == 0) {
    block.kept(0, block.mine.row) = block.mine.maximum;
    block.kept(1, block.mine.row) = weight;
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

// Behind a split: the last block of a group of splits merges that, in place of the group's first, and the last of all
// the groups. 16 rows of 512 sums are 32 KiB a split, which one block alone would read for long.
template <int kWidth>
__device__ void merge_wide(const AttentionParams& p, const DecodeTile& tile, float weight_bits) {
  const int parts = DecodeTile::parts(p);
  const auto arrived = [&](int level, int place, int count) {
    return arrived_last(p.plan.arrivals + (std::int64_t{place} * 2 + level) * parts + tile.work % parts, count);
  };
  const Partials all = Partials::of_splits(p, tile);
  const int size = split_group(all.count), in_group = tile.item.split % size;
  const Partials group = {all.first + tile.item.split - in_group, min(size, all.count - tile.item.split + in_group), 1};
  if (size > 1) {
    if (!arrived(1, group.first, group.count)) return;
    merge_partials<kWidth, kWideWarps>(p, tile, group, [&](int row, float maximum, float weight, const auto& sums) {
      const std::int64_t at = std::int64_t{group.first} * p.q_heads + tile.first_head + row;
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int k = 0; k < kWidth / 64; ++k)
        reinterpret_cast<float2*>(p.plan.partial + at * kWidth)[32 * k + lane] = sums[k];
      if (lane == 0) p.plan.partial_sums[at] = make_float2(maximum, weight);
    });
  }
  const Partials groups = {all.first, (all.count + size - 1) / size, size};
  if (arrived(0, all.first, groups.count)) merge_splits<kWidth, kWideWarps>(p, tile, groups, weight_bits);
}

// A decode's sums: results where the sequence has one split, else partial ones, which the last block merges. kWidth:
// the image's.
template <int kWidth, class Block>
__device__ void put_decode(const AttentionParams& p, const DecodeTile& tile, const Block& block) {
  const float value_scale = p.value_scales != nullptr ? p.value_scales[tile.kv_head] : 1.0f;
  const std::int64_t first = std::int64_t{tile.place(p)} * p.q_heads + tile.first_head;
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
  merge_wide<kWidth>(p, tile, Block::kWeightBits);
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

// Where sixteen numbers of a query begin; -1 beyond its end.
struct NumbersOfWidth {
  int width;
  __device__ explicit NumbersOfWidth(const AttentionParams& p) : width(p.layout.width) {}
  __device__ int operator()(int step) const { return 16 * step < width ? 16 * step : -1; }
};

template <int kWidth, KvElem kKey, KvElem kValue>
__global__ void __launch_bounds__(kWideThreads, 2) wide_decode_kernel(const __grid_constant__ AttentionParams p) {
  using Block = WideBlock<kWidth, kKey, kValue, kDecodeRows>;
  extern __shared__ __align__(128) std::byte shared[];
  const int total = p.plan.counts[0] * DecodeTile::parts(p);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const DecodeTile tile(p, work);
    const WideTiles<kWidth, kKey, kValue, kDecodeRows> tiles(p, shared, tile.item.seq, tile.kv_head,
                                                             tile.item.first_page, tile.item.num_pages);
    tiles.ask_keys(0);
    tiles.ask_values(0);
    Block block(shared);
    block.see(tile.item.context - 1, p.window, tile.item.first_page);
    const __nv_bfloat16* query = p.query + tile.item.seq * p.query_token_stride + tile.first_head * p.query_head_stride;
    block.start([&](int row) { return row < tile.rows ? query + row * p.query_head_stride : nullptr; },
                NumbersOfWidth(p), ScoreRule(p, tile.kv_head));
    walk_wide(block, tiles, p.soft_cap);
    __syncthreads();
    keep_rows(block);
    put_decode<kWidth>(p, DecodeTile(p, work), block);  // not kept in registers all the way
    __syncthreads();                                    // the next item's K and queries take this one's place
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
  tiles.ask_values(0);
  Block block(shared);
  const int row = item.first_row + block.mine.row;
  block.see(tile.position_of(p, row), p.window, tile.first_page);
  block.start([&](int) { return tile.query_row(p, row); }, NumbersOfWidth(p), ScoreRule(p, tile.kv_head));
  walk_wide(block, tiles, p.soft_cap);
  __syncthreads();
  keep_rows(block);
  const PrefillItem& again = p.plan.prefills[blockIdx.y];  // not kept in registers all the way
  put_prefill(p, PrefillTile(p, again, kWideTileRows), again.first_row, block);
}

}  // namespace octavo::cuda::portable
