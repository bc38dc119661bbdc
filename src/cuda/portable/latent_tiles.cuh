// Tiles of latents on their way into shared memory: 32 tokens of the cache become bfloat16 there, scaled, once for all
// rows of a block. Tokens that no row of the block sees are zeros: what an earlier holder of a page left never meets a
// product.
#pragma once

#include "cuda/portable/latent_params.h"
#include "cuda/portable/wide_tiles.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda::portable {

constexpr int kLatentTileBytes = kWideTokens * kLatentKey * 2;

// Decodes have two tiles: one is on its way while the other is used. Chunks have one, and more rows.
template <int kRows>
constexpr int latent_stages() {
  return kRows == kDecodeRows ? 2 : 1;
}
template <int kRows>
struct LatentShared : WideScores<latent_stages<kRows>() * kLatentTileBytes, kLatentKey, kRows, kWideTokens> {
  using Scores = WideScores<latent_stages<kRows>() * kLatentTileBytes, kLatentKey, kRows, kWideTokens>;
  static constexpr int kValueWidth = kLatentImage;
  static constexpr int kBytes = Scores::kEnd;

  __host__ __device__ static constexpr int keys(int tile) { return tile % latent_stages<kRows>() * kLatentTileBytes; }
  __host__ __device__ static constexpr int values(int tile) { return keys(tile); }
};

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

// The scale of a token's numbers from number i on, as bits that nothing waits for; and as a number.
__device__ inline std::uint32_t latent_scale_bits(const LatentPart& part, const float* given, const std::byte* page,
                                                  int token, int i) {
  if (part.grain == KvGrain::none) return __float_as_uint(1.0f);
  if (part.scale_bytes == 0) return *reinterpret_cast<const std::uint32_t*>(given);
  const std::byte* from = page + part.scale(token, i);
  return part.grain == KvGrain::token_head ? *reinterpret_cast<const std::uint16_t*>(from)
                                           : *reinterpret_cast<const std::uint32_t*>(from);
}
__device__ inline float latent_scale(const LatentPart& part, std::uint32_t bits) {
  return __uint_as_float(part.grain == KvGrain::token_head ? bits << 16 : bits);
}

// Where a thread finds its pieces of a part: of every eighth token of a tile from one on.
struct LatentLane {
  int first;        // of its numbers
  int from, to;     // of its first token: bytes from the page's start, and from the tile's in shared memory
  int token_bytes;  // from one token of a page to the next

  __device__ LatentLane(const LatentPart& part, int image, int token, int i)
      : first(i), from(part.number(token, i)), to(latent_piece(token, (image + i) / 8, kWideTokens)) {
    token_bytes = part.width * elem_bytes(part.elem);
  }
};

// Tiles of one item's pages on their way into shared memory, by all threads of a block: a warp takes every eighth
// token. Codes wait in registers until they become numbers.
template <KvElem kElem, class Shared>
class LatentTiles {
 public:
  static constexpr int kTokensOfWarp = kWideTokens / kWideWarps;
  static constexpr bool kInCodes = kElem != KvElem::bf16;

  // end: the first token that no row sees.
  __device__ LatentTiles(const LatentParams& p, std::byte* shared, int seq, int first_page, int num_pages, int end)
      : p_(p),
        shared_(shared),
        table_(p.attention.page_table + std::int64_t{seq} * p.attention.max_pages + first_page),
        tokens_(min(num_pages * kPageTokens, end - first_page * kPageTokens)) {}

  __device__ int count() const { return (tokens_ + kWideTokens - 1) / kWideTokens; }

  // Asks for a tile; its place is free.
  __device__ void ask(int tile) {
    const std::byte* page = p_.attention.pages + table_[tile / kTilesAPage] * p_.attention.page_bytes;
    const int place = tile % kTilesAPage * kWideTokens;
    const int there = min(kWideTokens, tokens_ - tile * kWideTokens);
    if constexpr (kInCodes) {
      ask_codes(page, place, there);
    } else {
      ask_latents(page, place, there, Shared::keys(tile));
    }
    ask_rope(page, place, there, Shared::keys(tile));
    commit_copies();
  }

  // Puts what was asked for last into its place; a barrier stands behind.
  __device__ void put(int tile) const {
    if constexpr (kInCodes) put_codes(Shared::keys(tile));
    if (is_8bit(p_.layout.rope.elem)) put_rope(Shared::keys(tile));
    wait_copies<0>();
  }

 private:
  static constexpr int kTilesAPage = kPageTokens / kWideTokens;
  static constexpr int kStep = kWideWarps * 128;  // from one token of a thread to its next, in shared memory

  __device__ static int warp() { return threadIdx.x / 32; }
  __device__ static int lane() { return threadIdx.x % 32; }
  __device__ LatentLane latent() const { return {p_.layout.latent, 0, warp(), lane() * (kInCodes ? 16 : 8)}; }
  __device__ LatentLane rope() const {
    return {p_.layout.rope, kLatentImage, warp() + kWideWarps * (lane() / 8), lane() % 8 * 8};
  }
  __device__ std::uint32_t address() const { return shared_address(shared_); }

  // Two pieces of a token, halves of the image apart.
  __device__ void ask_latents(const std::byte* page, int place, int there, int stage) const {
    constexpr int kHalf = kLatentImage / 2;
    const LatentLane mine = latent();
    const std::byte* from = page + place * mine.token_bytes + mine.from;
    const std::uint32_t to = address() + stage + mine.to;
    const int width = p_.layout.latent.width, step = kWideWarps * mine.token_bytes;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        copy_async_or_zeros(to + i * kStep + half * kHalf / 64 * kWideTokens * 128, from + i * step + half * kHalf * 2,
                            warp() + kWideWarps * i < there && mine.first + half * kHalf < width);
  }

  // A lane has 16 neighbours of a token.
  __device__ void ask_codes(const std::byte* page, int place, int there) {
    const LatentPart& part = p_.layout.latent;
    const LatentLane mine = latent();
    const std::byte* from = page + place * mine.token_bytes + mine.from;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int token = warp() + kWideWarps * i;
      codes_[i] = make_uint4(0, 0, 0, 0);
      scales_[i] = 0;
      if (token >= there || mine.first >= part.width) continue;
      codes_[i] = *reinterpret_cast<const uint4*>(from + kWideWarps * i * mine.token_bytes);
      scales_[i] = latent_scale_bits(part, p_.latent_scale, page, place + token, mine.first);
    }
  }
  // Four lanes have a chunk's row of 128 bytes: of eight, four put their second pieces first, so that none collide.
  __device__ void put_codes(int stage) const {
    const bool second = lane() / 4 % 2 == 1;
    std::byte* const to = shared_ + stage;
    const int at = latent().to ^ (second ? 16 : 0);
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const uint2 halves[2] = {make_uint2(codes_[i].x, codes_[i].y), make_uint2(codes_[i].z, codes_[i].w)};
      const float scale = latent_scale(p_.layout.latent, scales_[i]);
      *reinterpret_cast<uint4*>(to + at + i * kStep) = scaled_numbers<kElem>(second ? halves[1] : halves[0], scale);
      *reinterpret_cast<uint4*>(to + (at ^ 16) + i * kStep) =
          scaled_numbers<kElem>(second ? halves[0] : halves[1], scale);
    }
  }

  // A lane has a piece of one of its warp's four tokens.
  __device__ void ask_rope(const std::byte* page, int place, int there, int stage) {
    static_assert(kTokensOfWarp * kRopeImage / 8 == 32);
    const LatentPart& part = p_.layout.rope;
    const LatentLane mine = rope();
    const std::byte* from = page + place * mine.token_bytes + mine.from;
    const int token = warp() + kWideWarps * (lane() / 8);
    const bool is_there = token < there && mine.first < part.width;
    if (!is_8bit(part.elem)) return copy_async_or_zeros(address() + stage + mine.to, from, is_there);
    rope_codes_ = make_uint2(0, 0);
    rope_scale_ = 0;
    if (!is_there) return;
    rope_codes_ = *reinterpret_cast<const uint2*>(from);
    rope_scale_ = latent_scale_bits(part, p_.rope_scale, page, place + token, mine.first);
  }
  __device__ void put_rope(int stage) const {
    uint4& to = *reinterpret_cast<uint4*>(shared_ + stage + rope().to);
    const float scale = latent_scale(p_.layout.rope, rope_scale_);
    switch (p_.layout.rope.elem) {
      case KvElem::e4m3:
        to = scaled_numbers<KvElem::e4m3>(rope_codes_, scale);
        break;
      case KvElem::e5m2:
        to = scaled_numbers<KvElem::e5m2>(rope_codes_, scale);
        break;
      default:
        to = scaled_numbers<KvElem::int8>(rope_codes_, scale);
    }
  }

  const LatentParams& p_;
  std::byte* shared_;
  const std::int32_t* table_;
  const int tokens_;
  uint4 codes_[kInCodes ? kTokensOfWarp : 1];
  std::uint32_t scales_[kInCodes ? kTokensOfWarp : 1];
  uint2 rope_codes_;
  std::uint32_t rope_scale_;
};

}  // namespace octavo::cuda::portable
