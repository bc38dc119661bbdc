// UnpackedImage: a page and head whose 8-bit codes have become float16 in shared memory, once for all warps of a block.
// K keeps its order, rows of twice the bytes; V stays transposed, 128 bytes a number, in token order. Scales follow as
// float32: of K as they are, of V as multiples of a unit, then that unit.
#pragma once

#include "cuda/portable/page_image.cuh"

namespace octavo::cuda::portable {

template <int kWidth, KvElem kKey, KvElem kValue>
struct UnpackedImage {
  static_assert(is_8bit(kKey) && is_8bit(kValue));
  using Packed = PageImage<kWidth, kKey, kValue>;
  static constexpr int kKeyRow = 2 * kWidth;
  static constexpr int kValueBlock = kPageTokens * kKeyRow;
  static constexpr int kKeyScales = kValueBlock + kWidth * 2 * kPageTokens;
  static constexpr int kValueScales = kKeyScales + (kKey == KvElem::int8 ? 4 * kPageTokens : 0);
  static constexpr int kUnit = kValueScales + 4 * kPageTokens;
  static constexpr int kBytes = kValue == KvElem::int8 ? kUnit + 128 : kValueScales;  // two lie one after another
  static_assert(kBytes % 128 == 0);
};

// The power of two below a scale, in whose multiples sums are counted.
__device__ inline float unit_below(std::uint32_t scale_bits) {
  return __uint_as_float(min(scale_bits & 0x7F800000u, 0x7E000000u));
}
__device__ inline float inverse_of_unit(float unit) { return __uint_as_float((254u << 23) - __float_as_uint(unit)); }

template <KvElem kElem>
__device__ void unpack_piece(const std::byte* from, std::uint32_t (&low)[4], std::uint32_t (&high)[4]) {
  const uint4 codes = *reinterpret_cast<const uint4*>(from);
  unpack<kElem>(codes.x, low[0], high[0]);
  unpack<kElem>(codes.y, low[1], high[1]);
  unpack<kElem>(codes.z, low[2], high[2]);
  unpack<kElem>(codes.w, low[3], high[3]);
}

// Scales of a page. unit: raised to the largest so far; all threads have the same.
template <int kWidth, KvElem kKey, KvElem kValue>
__device__ void unpack_scales(const std::byte* page, std::byte* to, float& unit) {
  using From = PageImage<kWidth, kKey, kValue>;
  using To = UnpackedImage<kWidth, kKey, kValue>;
  const auto scale_of = [&](int at) {
    return __uint_as_float(std::uint32_t{reinterpret_cast<const std::uint16_t*>(page + at)[threadIdx.x]} << 16);
  };
  if (kKey == KvElem::int8 && threadIdx.x < kPageTokens)
    reinterpret_cast<float*>(to + To::kKeyScales)[threadIdx.x] = scale_of(From::kKeyScales);
  if constexpr (kValue == KvElem::int8) {
    const std::uint32_t two = reinterpret_cast<const std::uint32_t*>(page + From::kValueScales)[threadIdx.x % 32];
    unit = fmaxf(unit, unit_below(__reduce_max_sync(~0u, max(two << 16, two & 0xFFFF0000u))));
    if (threadIdx.x < kPageTokens)
      reinterpret_cast<float*>(to + To::kValueScales)[threadIdx.x] =
          scale_of(From::kValueScales) * inverse_of_unit(unit);
    if (threadIdx.x == 0) *reinterpret_cast<float*>(to + To::kUnit) = unit;
  }
}

// By all threads of a block; a barrier stands before and behind.
template <int kWidth, KvElem kKey, KvElem kValue, int kThreads>
__device__ void unpack_page(const std::byte* page, std::byte* to, float& unit) {
  using From = PageImage<kWidth, kKey, kValue>;
  using To = UnpackedImage<kWidth, kKey, kValue>;
  constexpr int kPieces = kWidth * kPageTokens / 16;
  constexpr int kRounds = (kPieces + kThreads - 1) / kThreads;
  std::uint32_t low[4], high[4];
  int thread = threadIdx.x;
  asm volatile("" : "+r"(thread));  // places are worked out again for each page, not kept in registers
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const int i = round * kThreads + thread, token = i % kPageTokens, b = i / kPageTokens * 16;
    if (kPieces % kThreads != 0 && i >= kPieces) break;
    unpack_piece<kKey>(page + token_offset(token, b, From::kKeyRow), low, high);
    *reinterpret_cast<uint4*>(to + token_offset(token, 2 * b, To::kKeyRow)) =
        make_uint4(low[0], high[0], low[1], high[1]);
    *reinterpret_cast<uint4*>(to + token_offset(token, 2 * b + 16, To::kKeyRow)) =
        make_uint4(low[2], high[2], low[3], high[3]);
  }
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const int i = round * kThreads + thread, d = i % kWidth, piece = i / kWidth;
    if (kPieces % kThreads != 0 && i >= kPieces) break;
    unpack_piece<kValue>(page + From::kValueBlock + swizzled(d * kPageTokens + piece * 16, kPageTokens), low, high);
    std::byte* row = to + To::kValueBlock + d * 128;  // pos() of page_layout.cuh undone: low holds tokens 0 to 7
    *reinterpret_cast<uint4*>(row + (((2 * piece) ^ (d & 7)) << 4)) = make_uint4(low[0], low[1], low[2], low[3]);
    *reinterpret_cast<uint4*>(row + (((2 * piece + 1) ^ (d & 7)) << 4)) =
        make_uint4(high[0], high[1], high[2], high[3]);
  }
  unpack_scales<kWidth, kKey, kValue>(page, to, unit);
}

}  // namespace octavo::cuda::portable
