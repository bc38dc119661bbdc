// Tiles of wide heads on their way into shared memory, and where everything of a block lies there: whole pages where a
// decode's K and V both have 8 bits, else halves. A tile is its part of the page's image: K and V in bfloat16 in chunks
// of 128 bytes a token, V in 8 bits as rows of 64 or 32 bytes.
#pragma once

#include "cuda/portable/page_image.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda::portable {

constexpr int kWideWarps = 8;
constexpr int kWideThreads = 32 * kWideWarps;
constexpr int kWideTokens = 32;    // of half a page
constexpr int kWideTileRows = 32;  // of a chunk

// Behind the tiles: queries where the rows are too many for registers, parts of scores, weights, and by how much a
// row's sums change.
template <int kBegin, int kWidth, int kRows, int kTileTokens>
struct WideScores {
  static constexpr int kTokens = kTileTokens;
  static constexpr bool kQueriesHeld = kRows == 16;
  static constexpr int kParts = kQueriesHeld ? 4 : 1;  // of the numbers, a sum of products each
  static constexpr int kScoreRow = kTokens + 8;        // of floats; eight rows do not collide
  static constexpr int kQueries = kBegin;
  static constexpr int kScores = kQueries + (kQueriesHeld ? 0 : kRows * kWidth * 2);
  static constexpr int kWeights = kScores + kParts * kRows * kScoreRow * 4;
  static constexpr int kChanges = kWeights + kRows * kTokens * 2;
  static constexpr int kEnd = kChanges + kRows * 4;
};

template <KvElem kKey, KvElem kValue, int kRows>
constexpr int wide_tokens() {
  return kRows == 16 && is_8bit(kKey) && is_8bit(kValue) ? kPageTokens : kWideTokens;
}
template <int kWidth, KvElem kKey, KvElem kValue, int kRows>
constexpr int wide_tile_bytes() {
  return wide_tokens<kKey, kValue, kRows>() * kWidth * (elem_bytes(kKey) + elem_bytes(kValue));
}

// Scales lie twice, for those of the next tile come before this one's were used.
template <int kWidth, KvElem kKey, KvElem kValue, int kRows>
struct WideShared
    : WideScores<wide_tile_bytes<kWidth, kKey, kValue, kRows>(), kWidth, kRows, wide_tokens<kKey, kValue, kRows>()> {
  using Scores =
      WideScores<wide_tile_bytes<kWidth, kKey, kValue, kRows>(), kWidth, kRows, wide_tokens<kKey, kValue, kRows>()>;
  static constexpr int kTokens = Scores::kTokens;
  static constexpr int kValueWidth = kWidth;
  static constexpr int kKeyRow = kWidth * elem_bytes(kKey);
  static constexpr int kKeys = 0;
  static constexpr int kValues = kTokens * kKeyRow;
  static constexpr int kKeyScales = Scores::kEnd;
  static constexpr int kValueScales = kKeyScales + 2 * kTokens;
  static constexpr int kBothScales = 4 * kTokens;
  static constexpr int kBytes = kKeyScales + 2 * kBothScales;

  __device__ static int keys(int) { return kKeys; }
  __device__ static int values(int) { return kValues; }
  __device__ static int key_scales(int tile) { return kKeyScales + tile % 2 * kBothScales; }
  __device__ static int value_scales(int tile) { return kValueScales + tile % 2 * kBothScales; }
};

// A tile's tokens of a block that lies token after token in chunks of 128 bytes. All threads read side by side: lanes
// that took a token each would ask for every sector of 32 bytes twice.
template <int kTokens>
__device__ void copy_rows(std::uint32_t to, const std::byte* block, int row_bytes, int part) {
  constexpr int kBytes = kWideThreads * 16;  // at a time
  static_assert(kTokens * 128 % kBytes == 0);
  const int from = part * kTokens * 128 + static_cast<int>(threadIdx.x) * 16;
  for (int chunk = 0; chunk < row_bytes / 128; ++chunk)
#pragma unroll
    for (int i = 0; i < kTokens * 128; i += kBytes)
      copy_async(to + chunk * kTokens * 128 + i + threadIdx.x * 16, block + chunk * kPageTokens * 128 + i + from);
}

// The same of a block in pieces, which are placed in the image.
template <int kTokens>
__device__ void place_rows(std::uint32_t to, const std::byte* block, int row_bytes, int part) {
  for (int i = threadIdx.x; i < row_bytes / 16 * kTokens; i += kWideThreads) {
    const int token = i % kTokens, piece = i / kTokens;
    copy_async(to + piece / 8 * kTokens * 128 + token * 128 + ((piece % 8 ^ token % 8) << 4),
               block + piece_offset(part * kTokens + token, piece * 16));
  }
}

// Half of V in 8 bits: of each number's row two of four pieces, exchanged by the number so that rows do not collide.
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
  static constexpr int kTokens = Shared::kTokens;
  static constexpr int kTilesAPage = kPageTokens / kTokens;
  static_assert(Shared::kKeyRow % 128 == 0);

  __device__ WideTiles(const AttentionParams& p, std::byte* shared, int seq, int kv_head, int first_page, int num_pages)
      : p_(p),
        to_(shared_address(shared)),
        table_(static_cast<std::int32_t>(std::int64_t{seq} * p.max_pages + first_page)),
        kv_head_(kv_head),
        num_tiles_(num_pages * kTilesAPage) {
    const int from = p.layout.width * elem_bytes(kKey) / 16;
    for (int i = from * kTokens + threadIdx.x; i < Shared::kKeyRow / 16 * kTokens; i += kWideThreads) {
      const int token = i % kTokens, piece = i / kTokens;
      *reinterpret_cast<uint4*>(shared + Shared::kKeys + piece / 8 * kTokens * 128 + token * 128 +
                                ((piece % 8 ^ token % 8) << 4)) = make_uint4(0, 0, 0, 0);
    }
  }

  __device__ int count() const { return num_tiles_; }

  // Asks for K of a tile and its scales, or for V; for nothing beyond the last.
  __device__ void ask_keys(int tile) const {
    if (tile < num_tiles_) {
      const std::byte* page = page_of(tile);
      put_rows(Shared::kKeys, page, Shared::kKeyRow, p_.layout.width * elem_bytes(kKey), tile);
      if (kKey == KvElem::int8) copy_scales(Shared::key_scales(tile), page + p_.layout.key_scales, tile);
      if (kValue == KvElem::int8) copy_scales(Shared::value_scales(tile), page + p_.layout.value_scales, tile);
    }
    commit_copies();
  }
  __device__ void ask_values(int tile) const {
    if (tile < num_tiles_) {
      const std::byte* block = page_of(tile) + p_.layout.value_block;
      const std::uint32_t to = to_ + Shared::kValues;
      if constexpr (kValue == KvElem::bf16) {
        put_rows(Shared::kValues, block, 2 * kWidth, 2 * p_.layout.width, tile);
      } else if constexpr (kTilesAPage == 1) {
        copy_pieces<kWideThreads>(to, block, p_.layout.width * kPageTokens / 16);
      } else {
        copy_half_columns(to, block, p_.layout.width, tile % kTilesAPage);
      }
    }
    commit_copies();
  }

 private:
  __device__ const std::byte* page_of(int tile) const {
    return p_.pages + p_.page_table[table_ + tile / kTilesAPage] * p_.page_bytes +
           std::int64_t{kv_head_} * p_.layout.head_bytes;
  }
  __device__ void put_rows(int to, const std::byte* block, int image_row, int row, int tile) const {
    if (p_.layout.in_pieces)
      place_rows<kTokens>(to_ + to, block, row, tile % kTilesAPage);
    else
      copy_rows<kTokens>(to_ + to, block, image_row, tile % kTilesAPage);
  }
  __device__ void copy_scales(int to, const std::byte* from, int tile) const {
    if (threadIdx.x < kTokens / 8)
      copy_async(to_ + to + threadIdx.x * 16, from + tile % kTilesAPage * 2 * kTokens + threadIdx.x * 16);
  }

  const AttentionParams& p_;
  const std::uint32_t to_;
  const std::int32_t table_;  // where the page numbers begin
  const int kv_head_;
  const int num_tiles_;
};

}  // namespace octavo::cuda::portable
