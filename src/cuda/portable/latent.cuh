// Latent attention, both phases: the block of wide heads over tiles that are keys and values at once. 32 tokens of the
// cache become bfloat16 in shared memory, scaled, once for all rows of a block; the first 512 numbers of a key are its
// value. Tokens that no row of the block sees are zeros there: what an earlier holder of a page left never meets a
// product.
#pragma once

#include "cuda/portable/latent_params.h"
#include "cuda/portable/wide.cuh"

namespace octavo::cuda::portable {

template <int kRows>
struct LatentShared {
  static constexpr int kValueWidth = kLatentImage;
  static constexpr int kScoreRow = kWideTokens + 4;  // of floats
  static constexpr int kKeys = 0;
  static constexpr int kValues = kKeys;
  static constexpr int kQueries = kKeys + kWideTokens * kLatentKey * 2;
  static constexpr int kScores = kQueries + kRows * kLatentKey * 2;
  static constexpr int kWeights = kScores + 2 * 16 * kScoreRow * 4;
  static constexpr int kChanges = kWeights + kRows * kWideTokens * 2;
  static constexpr int kKeyScales = 0, kValueScales = 0;  // numbers are scaled already
  static constexpr int kBytes = kChanges + kRows * 4;
};

template <int kRows>
using LatentBlock = WideBlock<kLatentKey, KvElem::bf16, KvElem::bf16, kRows, LatentShared<kRows>>;

// This thread's row, or null: latent and rope part side by side, each filled up with zeros to its image.
template <class Block>
__device__ void put_latent_query(Block& block, const __nv_bfloat16* from, const LatentLayout& layout,
                                 const ScoreRule& rule) {
  constexpr int kLatentPieces = kLatentImage / 8;
  const int latent = layout.latent.width / 8, rope = layout.rope.width / 8;
  block.mine.factor = fmaxf(rule.scale, 1e-37f);
  for (int piece = threadIdx.x % Block::kSharers; piece < kLatentKey / 8; piece += Block::kSharers) {
    const int place = piece < kLatentPieces ? piece : piece - kLatentPieces;
    const bool there = from != nullptr && place < (piece < kLatentPieces ? latent : rope);
    uint4 x = make_uint4(0, 0, 0, 0);
    if (there) x = reinterpret_cast<const uint4*>(from)[piece < kLatentPieces ? place : latent + place];
    block.put_query_piece(piece, x);
  }
}

// The numbers of two words of codes as four pairs of bfloat16, scaled.
template <KvElem kElem>
__device__ uint4 scaled_numbers(uint2 codes, float scale) {
  std::uint32_t halves[4], pairs[4];
  unpack<kElem>(codes.x, halves[0], halves[1]);
  unpack<kElem>(codes.y, halves[2], halves[3]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&halves[i]));
    pairs[i] = packed<Operand::bf16>(two.x * scale, two.y * scale);
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// The scale of a token's numbers from number i on.
__device__ inline float latent_scale(const LatentPart& part, const float* given, const std::byte* page, int token,
                                     int i) {
  switch (part.grain) {
    case KvGrain::none:
      return 1.0f;
    case KvGrain::token_head:
      return __uint_as_float(std::uint32_t{*reinterpret_cast<const std::uint16_t*>(page + part.scale(token, i))} << 16);
    case KvGrain::token_block:
      return *reinterpret_cast<const float*>(page + part.scale(token, i));
    default:
      return *given;
  }
}

// Tiles of one item's pages on their way into shared memory, by all threads of a block: a warp takes every eighth
// token.
template <KvElem kElem>
class LatentTiles {
 public:
  static constexpr int kTokensOfWarp = kWideTokens / kWideWarps;

  // end: the first token that no row sees.
  __device__ LatentTiles(const LatentParams& p, std::byte* shared, int seq, int first_page, int num_pages, int end)
      : p_(p),
        shared_(shared),
        table_(p.attention.page_table + std::int64_t{seq} * p.attention.max_pages + first_page),
        tokens_(min(num_pages * kPageTokens, end - first_page * kPageTokens)) {}

  __device__ int count() const { return (tokens_ + kWideTokens - 1) / kWideTokens; }

  // A barrier stands before and behind.
  __device__ void put(int tile) const {
    const std::byte* page = p_.attention.pages + table_[tile / kWideTilesAPage] * p_.attention.page_bytes;
    const int place = tile % kWideTilesAPage * kWideTokens;
    const int there = min(kWideTokens, tokens_ - tile * kWideTokens);
    if constexpr (kElem == KvElem::bf16) {
      put_latents(page, place, there);
    } else {
      put_codes(page, place, there);
    }
    put_rope(page, place, there);
    wait_copies<0>();
  }

 private:
  __device__ std::byte* at(int token, int piece) const { return shared_ + latent_piece(token, piece, kWideTokens); }

  __device__ void put_latents(const std::byte* page, int place, int there) const {
    const LatentPart& part = p_.layout.latent;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int token = warp + kWideWarps * i;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int piece = lane + 32 * half;
        std::byte* const to = at(token, piece);
        if (token < there && piece * 8 < part.width)
          copy_async(static_cast<std::uint32_t>(__cvta_generic_to_shared(to)),
                     page + part.number(place + token, piece * 8));
        else
          *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
      }
    }
    commit_copies();
  }

  // A lane has 16 neighbours of a token. All that a warp reads is asked for before the first is used.
  __device__ void put_codes(const std::byte* page, int place, int there) const {
    const LatentPart& part = p_.layout.latent;
    const int warp = threadIdx.x / 32, first = threadIdx.x % 32 * 16;
    uint4 codes[kTokensOfWarp];
    float scales[kTokensOfWarp];
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int token = warp + kWideWarps * i;
      codes[i] = make_uint4(0, 0, 0, 0);
      scales[i] = 0.0f;
      if (token >= there || first >= part.width) continue;
      codes[i] = *reinterpret_cast<const uint4*>(page + part.number(place + token, first));
      scales[i] = latent_scale(part, p_.latent_scale, page, place + token, first);
    }
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int token = warp + kWideWarps * i;
      *reinterpret_cast<uint4*>(at(token, first / 8)) =
          scaled_numbers<kElem>(make_uint2(codes[i].x, codes[i].y), scales[i]);
      *reinterpret_cast<uint4*>(at(token, first / 8 + 1)) =
          scaled_numbers<kElem>(make_uint2(codes[i].z, codes[i].w), scales[i]);
    }
  }

  // A lane has a piece of one of its warp's four tokens.
  __device__ void put_rope(const std::byte* page, int place, int there) const {
    static_assert(kTokensOfWarp * kRopeImage / 8 == 32);
    const LatentPart& part = p_.layout.rope;
    const int lane = threadIdx.x % 32, piece = lane % 8, token = threadIdx.x / 32 + kWideWarps * (lane / 8);
    uint4 numbers = make_uint4(0, 0, 0, 0);
    if (token < there && piece * 8 < part.width) {
      const std::byte* from = page + part.number(place + token, piece * 8);
      const float scale = latent_scale(part, p_.rope_scale, page, place + token, piece * 8);
      switch (part.elem) {
        case KvElem::e4m3:
          numbers = scaled_numbers<KvElem::e4m3>(*reinterpret_cast<const uint2*>(from), scale);
          break;
        case KvElem::e5m2:
          numbers = scaled_numbers<KvElem::e5m2>(*reinterpret_cast<const uint2*>(from), scale);
          break;
        case KvElem::int8:
          numbers = scaled_numbers<KvElem::int8>(*reinterpret_cast<const uint2*>(from), scale);
          break;
        default:
          numbers = *reinterpret_cast<const uint4*>(from);
      }
    }
    *reinterpret_cast<uint4*>(at(token, kLatentImage / 8 + piece)) = numbers;
  }

  const LatentParams& p_;
  std::byte* shared_;
  const std::int32_t* table_;
  const int tokens_;
};

// first_token: of the first tile, in its sequence.
template <class Block, class Tiles>
__device__ void walk_latents(Block& block, const Tiles& tiles, int first_token, float soft_cap) {
  const int count = tiles.count();
  for (int tile = 0; tile < count; ++tile) {
    __syncthreads();  // values of the tile before were summed
    tiles.put(tile);
    __syncthreads();
    block.multiply_keys();
    __syncthreads();
    block.weigh(first_token + tile * kWideTokens, soft_cap);
    __syncthreads();
    block.multiply_values();
  }
  __syncthreads();
}

template <KvElem kElem>
__global__ void __launch_bounds__(kWideThreads, 2) latent_decode_kernel(const __grid_constant__ LatentParams params) {
  extern __shared__ __align__(128) std::byte shared[];
  const AttentionParams& p = params.attention;
  const int total = p.plan.counts[0] * DecodeTile::row_tiles(p);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const DecodeTile tile(p, work);
    LatentBlock<kDecodeRows> block(shared);
    block.mine.position = tile.item.context - 1;
    block.mine.first = p.window > 0 ? tile.item.context - p.window : 0;
    const int head = tile.first_head + block.mine.row;
    put_latent_query(block,
                     block.mine.row < tile.rows
                         ? p.query + tile.item.seq * p.query_token_stride + head * p.query_head_stride
                         : nullptr,
                     params.layout, ScoreRule(p, 0));
    const LatentTiles<kElem> tiles(params, shared, tile.item.seq, tile.item.first_page, tile.item.num_pages,
                                   tile.item.context);
    walk_latents(block, tiles, tile.item.first_page * kPageTokens, p.soft_cap);
    keep_rows(block);
    put_decode<kLatentImage>(p, tile, block);
    __syncthreads();  // the next item's queries take this one's place
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
  block.mine.position = tile.position_of(p, row);
  block.mine.first = p.window > 0 ? block.mine.position - p.window + 1 : 0;
  put_latent_query(block, tile.query_row(p, row), params.layout, ScoreRule(p, 0));
  const LatentTiles<kElem> tiles(params, shared, tile.seq, tile.first_page, tile.num_pages,
                                 tile.position_of(p, item.first_row + kWideTileRows - 1) + 1);
  walk_latents(block, tiles, tile.first_page * kPageTokens, p.soft_cap);
  keep_rows(block);
  put_prefill(p, tile, item.first_row, block);
}

}  // namespace octavo::cuda::portable
