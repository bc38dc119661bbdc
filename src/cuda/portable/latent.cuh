// Latent attention, both phases: the block of wide heads over tiles that are keys and values at once; the first 512
// numbers of a key are its value.
#pragma once

#include "cuda/portable/latent_tiles.cuh"
#include "cuda/portable/wide.cuh"

namespace octavo::cuda::portable {

template <int kRows>
using LatentBlock = WideBlock<kLatentKey, KvElem::bf16, KvElem::bf16, kRows, LatentShared<kRows>>;

// Where sixteen numbers of a query begin: latent and rope part lie side by side, and each is filled up with zeros (-1)
// to its image.
struct NumbersOfLatent {
  int latent, rope;
  __device__ explicit NumbersOfLatent(const LatentLayout& layout)
      : latent(layout.latent.width), rope(layout.rope.width) {}
  __device__ int operator()(int step) const {
    const int of_rope = 16 * step - kLatentImage;
    if (of_rope < 0) return 16 * step < latent ? 16 * step : -1;
    return of_rope < rope ? latent + of_rope : -1;
  }
};

// Where there are two places the next tile comes while one is used.
template <class Block, class Tiles>
__device__ void walk_latents(Block& block, Tiles& tiles, float soft_cap) {
  constexpr bool kAhead = Block::Shared::keys(1) != 0;
  const int count = tiles.count();
  if (count == 0) return;
  tiles.ask(0);
  tiles.put(0);
  __syncthreads();
#pragma unroll 1
  for (int tile = 0; tile < count; ++tile) {
    const bool more = tile + 1 < count;
    if (kAhead && more) tiles.ask(tile + 1);
    block.multiply_keys(tile);
    __syncthreads();
    block.weigh(tile, soft_cap);
    __syncthreads();
    block.multiply_values(tile);
    if (!kAhead) __syncthreads();
    if (more) {
      if (!kAhead) tiles.ask(tile + 1);
      tiles.put(tile + 1);
    }
    __syncthreads();
  }
}

template <KvElem kElem>
__global__ void __launch_bounds__(kWideThreads, 2) latent_decode_kernel(const __grid_constant__ LatentParams params) {
  extern __shared__ __align__(128) std::byte shared[];
  const AttentionParams& p = params.attention;
  const int total = p.plan.counts[0] * DecodeTile::row_tiles(p);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const DecodeTile tile(p, work);
    LatentBlock<kDecodeRows> block(shared);
    block.see(tile.item.context - 1, p.window, tile.item.first_page);
    const __nv_bfloat16* query = p.query + tile.item.seq * p.query_token_stride + tile.first_head * p.query_head_stride;
    block.start([&](int row) { return row < tile.rows ? query + row * p.query_head_stride : nullptr; },
                NumbersOfLatent(params.layout), ScoreRule(p, 0));
    LatentTiles<kElem, LatentShared<kDecodeRows>> tiles(params, shared, tile.item.seq, tile.item.first_page,
                                                        tile.item.num_pages, tile.item.context);
    walk_latents(block, tiles, p.soft_cap);
    keep_rows(block);
    put_decode<kLatentImage>(p, DecodeTile(p, work), block);  // not kept in registers all the way
    __syncthreads();                                          // the next item's queries take this one's place
  }
}

// A launch may have more tiles than a grid's second dimension: the third goes on.
template <KvElem kElem>
__global__ void __launch_bounds__(kWideThreads, 2) latent_prefill_kernel(const __grid_constant__ LatentParams params) {
  extern __shared__ __align__(128) std::byte shared[];
  const AttentionParams& p = params.attention;
  const int work = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  if (work >= p.plan.counts[1]) return;
  const PrefillItem item = p.plan.prefills[work];
  const PrefillTile tile(p, item, kWideTileRows);
  LatentBlock<kWideTileRows> block(shared);
  const int row = item.first_row + block.mine.row;
  block.see(tile.position_of(p, row), p.window, tile.first_page);
  block.start([&](int) { return tile.query_row(p, row); }, NumbersOfLatent(params.layout), ScoreRule(p, 0));
  LatentTiles<kElem, LatentShared<kWideTileRows>> tiles(params, shared, tile.seq, tile.first_page, tile.num_pages,
                                                        tile.position_of(p, item.first_row + kWideTileRows - 1) + 1);
  walk_latents(block, tiles, p.soft_cap);
  keep_rows(block);
  const PrefillItem& again = p.plan.prefills[work];
  put_prefill(p, PrefillTile(p, again, kWideTileRows), again.first_row, block);
}

}  // namespace octavo::cuda::portable
