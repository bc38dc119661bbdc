// PageImage: a page and head as it lies in shared memory, at the width of its kernel, and how pages of narrower heads
// are placed in it. Offsets are those of cuda/page_layout.cuh at that width.
#pragma once

#include "cuda/portable/mma.cuh"
#include "cuda/portable/params.h"

namespace octavo::cuda::portable {

template <int kWidth, KvElem kKey, KvElem kValue>
struct PageImage {
  static constexpr int kKeyRow = kWidth * elem_bytes(kKey);
  static constexpr int kValueRow = kWidth * elem_bytes(kValue);
  static constexpr int kValueBlock = kPageTokens * kKeyRow;
  static constexpr int kKeyScales = kValueBlock + kPageTokens * kValueRow;
  static constexpr int kValueScales = kKeyScales + (kKey == KvElem::int8 ? 2 * kPageTokens : 0);
  static constexpr int kBytes = kValueScales + (kValue == KvElem::int8 ? 2 * kPageTokens : 0);
};

// `count` pieces of 16 bytes that lie as in the image.
template <int kThreads>
__device__ void copy_pieces(std::uint32_t to, const std::byte* from, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads) copy_async(to + i * 16, from + i * 16);
}

// A page in pieces on its way to its image.
template <int kWidth, KvElem kKey, KvElem kValue, int kThreads>
__device__ void place_page(std::uint32_t to, const std::byte* from, const PageLayout& layout) {
  using Image = PageImage<kWidth, kKey, kValue>;
  const auto place_rows = [&](std::uint32_t block, const std::byte* rows, int pieces, int row_bytes) {
    for (int i = threadIdx.x; i < pieces * kPageTokens; i += kThreads)
      copy_async(block + token_offset(i % kPageTokens, i / kPageTokens * 16, row_bytes), rows + i * 16);
  };
  place_rows(to, from, layout.width * elem_bytes(kKey) / 16, Image::kKeyRow);
  if constexpr (kValue == KvElem::bf16) {
    place_rows(to + Image::kValueBlock, from + layout.value_block, layout.width / 8, Image::kValueRow);
  } else {
    copy_pieces<kThreads>(to + Image::kValueBlock, from + layout.value_block, layout.width * kPageTokens / 16);
  }
  if constexpr (Image::kBytes > Image::kKeyScales)
    copy_pieces<kThreads>(to + Image::kKeyScales, from + layout.key_scales, (Image::kBytes - Image::kKeyScales) / 16);
}

// Zeroes what lies beyond a narrower head's numbers of K: queries are zero there, but 0 * NaN is NaN.
template <int kThreads>
__device__ void clear_padding(std::byte* keys, int row_bytes, int from_byte) {
  const int first = from_byte / 16 * kPageTokens, count = row_bytes / 16 * kPageTokens;
  for (int i = first + static_cast<int>(threadIdx.x); i < count; i += kThreads)
    *reinterpret_cast<uint4*>(keys + token_offset(i % kPageTokens, i / kPageTokens * 16, row_bytes)) =
        make_uint4(0, 0, 0, 0);
}

}  // namespace octavo::cuda::portable
