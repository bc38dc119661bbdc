// Tiles of 32 tokens of wide heads on their way into shared memory, and where everything of a block lies there. Half a
// page's image is kept: K and V in bfloat16 in chunks of 32 rows, V in 8 bits as rows of 32 bytes.
#pragma once

#include "cuda/portable/page_image.cuh"

namespace octavo::cuda::portable {

constexpr int kWideWarps = 8;
constexpr int kWideThreads = 32 * kWideWarps;
constexpr int kWideTokens = 32;
constexpr int kWideTileRows = 32;  // of a chunk
constexpr int kWideTilesAPage = kPageTokens / kWideTokens;

template <int kWidth, KvElem kKey, KvElem kValue, int kRows>
struct WideShared {
  static constexpr int kValueWidth = kWidth;
  static constexpr int kKeyRow = kWidth * elem_bytes(kKey);
  static constexpr int kScoreRow = kWideTokens + 4;  // of floats
  static constexpr int kKeys = 0;
  static constexpr int kValues = kKeys + kWideTokens * kKeyRow;
  static constexpr int kQueries = kValues + kWideTokens * kWidth * elem_bytes(kValue);
  static constexpr int kScores = kQueries + kRows * kWidth * 2;  // two arrays: halves of the products, or rows
  static constexpr int kWeights = kScores + 2 * 16 * kScoreRow * 4;
  static constexpr int kChanges = kWeights + kRows * kWideTokens * 2;
  static constexpr int kKeyScales = kChanges + kRows * 4;
  static constexpr int kValueScales = kKeyScales + 2 * kWideTokens;
  static constexpr int kBytes = kValueScales + 2 * kWideTokens;
};

// A half of a block that lies token after token, or in pieces.
__device__ inline void copy_half_rows(std::uint32_t to, const std::byte* block, int row_bytes, int bytes,
                                      bool in_pieces, int half) {
  for (int i = threadIdx.x; i < bytes / 16 * kWideTokens; i += kWideThreads) {
    const int token = i % kWideTokens, piece = i / kWideTokens, chunk = piece / 8;
    const int from = in_pieces ? piece_offset(half * kWideTokens + token, piece * 16)
                               : token_offset(half * kWideTokens + token, piece * 16, row_bytes);
    copy_async(to + chunk * kWideTokens * 128 + token * 128 + ((piece % 8 ^ token % 8) << 4), block + from);
  }
}

// A half of V in 8 bits: of each number's row two of four pieces, exchanged by the number so that rows do not collide.
__device__ inline void copy_half_columns(std::uint32_t to, const std::byte* block, int width, int half) {
  for (int i = threadIdx.x; i < 2 * width; i += kWideThreads) {
    const int d = i / 2, piece = i % 2;
    copy_async(to + d * 32 + ((piece ^ (d >> 2 & 1)) << 4), block + swizzled(d * 64 + (2 * half + piece) * 16, 64));
  }
}

// The tiles of one item's pages, in order.
template <int kWidth, KvElem kKey, KvElem kValue, int kRows>
class WideTiles {
 public:
  using Shared = WideShared<kWidth, kKey, kValue, kRows>;
  static_assert(Shared::kKeyRow % 128 == 0);

  __device__ WideTiles(const AttentionParams& p, std::byte* shared, int seq, int kv_head, int first_page, int num_pages)
      : p_(p),
        to_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        table_(p.page_table + std::int64_t{seq} * p.max_pages + first_page),
        head_(p.pages + std::int64_t{kv_head} * p.layout.head_bytes),
        num_tiles_(num_pages * kWideTilesAPage) {
    const int from = p.layout.width * elem_bytes(kKey) / 16;
    for (int i = from * kWideTokens + threadIdx.x; i < Shared::kKeyRow / 16 * kWideTokens; i += kWideThreads) {
      const int token = i % kWideTokens, piece = i / kWideTokens;
      *reinterpret_cast<uint4*>(shared + Shared::kKeys + piece / 8 * kWideTokens * 128 + token * 128 +
                                ((piece % 8 ^ token % 8) << 4)) = make_uint4(0, 0, 0, 0);
    }
  }

  __device__ int count() const { return num_tiles_; }

  // Asks for K of a tile, nothing beyond the last; or for V and what weighs its rows.
  __device__ void ask_keys(int tile) const {
    if (tile < num_tiles_) {
      const std::byte* page = page_of(tile);
      const int half = tile % kWideTilesAPage;
      copy_half_rows(to_ + Shared::kKeys, page, Shared::kKeyRow, p_.layout.width * elem_bytes(kKey),
                     p_.layout.in_pieces, half);
    }
    commit_copies();
  }
  __device__ void ask_values(int tile) const {
    const std::byte* page = page_of(tile);
    const int half = tile % kWideTilesAPage;
    if constexpr (kValue == KvElem::bf16) {
      copy_half_rows(to_ + Shared::kValues, page + p_.layout.value_block, 2 * kWidth, 2 * p_.layout.width,
                     p_.layout.in_pieces, half);
    } else {
      copy_half_columns(to_ + Shared::kValues, page + p_.layout.value_block, p_.layout.width, half);
    }
    if (kKey == KvElem::int8) copy_scales(Shared::kKeyScales, page + p_.layout.key_scales, half);
    if (kValue == KvElem::int8) copy_scales(Shared::kValueScales, page + p_.layout.value_scales, half);
    commit_copies();
  }

 private:
  __device__ const std::byte* page_of(int tile) const { return head_ + table_[tile / kWideTilesAPage] * p_.page_bytes; }
  __device__ void copy_scales(int to, const std::byte* from, int half) const {
    if (threadIdx.x < 4) copy_async(to_ + to + threadIdx.x * 16, from + half * 2 * kWideTokens + threadIdx.x * 16);
  }

  const AttentionParams& p_;
  const std::uint32_t to_;
  const std::int32_t* table_;
  const std::byte* head_;
  const int num_tiles_;
};

}  // namespace octavo::cuda::portable
