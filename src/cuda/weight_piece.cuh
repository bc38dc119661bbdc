// Eight neighbouring numbers of an expert's row: asked for as they lie in memory, and made bf16 when a product wants
// them, so that the next piece is on its way under the product of this one. A scale for a block is multiplied in before
// the one rounding; one for a row or all of them is left to the result.
#pragma once

#include "cuda/grouping.cuh"

namespace octavo::cuda {

__device__ inline uint4 rounded(const float (&numbers)[8]) {
  uint4 bits;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&bits);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(numbers[2 * i], numbers[2 * i + 1]);
  return bits;
}

// A row of a part, found once.
struct WeightRow {
  const PartView* part;
  std::int64_t row;
  const std::byte* bytes;
  const float* scales = nullptr;  // of its blocks; null: none

  __device__ WeightRow(const PartView& of, std::int64_t i) : part(&of), row(i), bytes(of.row(i)) {
    if (of.grain == ScaleGrain::block) scales = of.scale + i / of.block_rows * of.scale_stride;
  }
  __device__ float scale_of_block(unsigned column) const {
    return scales == nullptr ? 1.0f : scales[column / static_cast<unsigned>(part->block_cols)];
  }
  __device__ float scale_of_row() const { return scales == nullptr ? part->scale_at(row, 0) : 1.0f; }
};

// Any dtype, a number at a time.
template <DType kDtype>
struct WeightPiece {
  float numbers[8];

  __device__ void load(const WeightRow& from, int chunk) {
    const float scale = from.scale_of_block(8 * chunk);
#pragma unroll
    for (int i = 0; i < 8; ++i) numbers[i] = number_at(*from.part, from.row, 8 * chunk + i) * scale;
  }
  __device__ uint4 bf16() const { return rounded(numbers); }
};

template <>
struct WeightPiece<DType::bf16> {
  uint4 bits;

  __device__ void load(const WeightRow& from, int chunk) {
    bits = __ldg(reinterpret_cast<const uint4*>(from.bytes) + chunk);
  }
  __device__ uint4 bf16() const { return bits; }
};

template <>
struct WeightPiece<DType::e4m3> {
  uint2 codes;
  float scale;

  __device__ void load(const WeightRow& from, int chunk) {
    codes = __ldg(reinterpret_cast<const uint2*>(from.bytes) + chunk);
    scale = from.scale_of_block(8 * chunk);
  }
  __device__ uint4 bf16() const {
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto pair = static_cast<__nv_fp8x2_storage_t>((i < 2 ? codes.x : codes.y) >> 16 * (i % 2));
      const float2 two = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
      numbers[2 * i] = two.x * scale;
      numbers[2 * i + 1] = two.y * scale;
    }
    return rounded(numbers);
  }
};

// Four codes of e2m1 in the lower half of `codes` as pairs of bf16: a table of magnitudes by bytes, then the signs.
__device__ inline void widen_e2m1(std::uint32_t codes, std::uint32_t& first, std::uint32_t& second) {
  const std::uint32_t which = codes & 0x7777u;
  std::uint32_t signs = codes & 0x8888u;  // one a nibble, to one a byte
  signs = (signs | signs << 8) & 0x00880088u;
  signs = (signs << 4 | signs << 8) & 0x80808080u;
  const std::uint32_t upper = __byte_perm(0x3F3F3F00u, 0x40404040u, which) | signs;
  const std::uint32_t lower = __byte_perm(0xC0800000u, 0xC0804000u, which);
  first = __byte_perm(lower, upper, 0x5140);
  second = __byte_perm(lower, upper, 0x7362);
}

template <>
struct WeightPiece<DType::e2m1> {
  static constexpr int kBlock = 32;  // numbers of a scale
  std::uint32_t codes;
  std::uint32_t power;  // e8m0

  __device__ void load(const WeightRow& from, int chunk) {
    codes = __ldg(reinterpret_cast<const std::uint32_t*>(from.bytes) + chunk);
    power = __ldg(reinterpret_cast<const std::uint8_t*>(from.part->scale) + from.row * from.part->scale_stride +
                  8 * chunk / kBlock);
  }
  __device__ uint4 bf16() const {
    // 2^-127 is half the least normal number; 255 is a NaN
    const auto bits = static_cast<std::uint16_t>(power == 0 ? 0x40u : power == 255 ? 0x7FFFu : power << 7);
    const __nv_bfloat162 scale = __bfloat162bfloat162(__ushort_as_bfloat16(bits));
    uint4 made;
    widen_e2m1(codes, made.x, made.y);
    widen_e2m1(codes >> 16, made.z, made.w);
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&made);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __hmul2(pairs[i], scale);
    return made;
  }
};

template <>
struct WeightPiece<DType::q4_0> {
  __half d;
  std::uint16_t pairs[4];
  int shift;

  __device__ void load(const WeightRow& from, int chunk) {
    constexpr int kBytes = dtype_info(DType::q4_0).block_bytes;
    const auto* block = reinterpret_cast<const std::uint16_t*>(from.bytes + chunk / 4 * kBytes);
    d = __ushort_as_half(__ldg(block));
    shift = chunk % 4 / 2 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __ldg(block + 1 + chunk % 2 * 4 + i);
  }
  __device__ uint4 bf16() const {
    const float scale = __half2float(d);
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pair = pairs[i] >> shift;
      numbers[2 * i] = scale * static_cast<float>((pair & 15) - 8);
      numbers[2 * i + 1] = scale * static_cast<float>((pair >> 8 & 15) - 8);
    }
    return rounded(numbers);
  }
};

}  // namespace octavo::cuda
