// Numbers of GGUF's blocks, by the formulas of tensor/dtype.h: the code of a number, a byte, and the line that makes a
// value of it. A line is exact in float32; the value is rounded once.
//
// Blocks are aligned to two bytes; those of a multiple of four to four.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::cuda {

// Value = factor * code + base.
struct PackedLine {
  float factor, base;
};

template <class T>
__device__ inline T load_as(const std::byte* from, std::int64_t i) {
  return reinterpret_cast<const T*>(from)[i];
}

__device__ inline float half_at(const std::byte* from) { return __half2float(load_as<__half>(from, 0)); }

__device__ inline std::uint32_t word_at(const std::byte* from, bool aligned) {
  if (aligned) return load_as<std::uint32_t>(from, 0);
  return load_as<std::uint16_t>(from, 0) | std::uint32_t{load_as<std::uint16_t>(from, 1)} << 16;
}

// The line of 32 numbers that have six bits of a factor and six of a base: of the first four such groups each is the
// lower part of a byte; of the last four the lower four bits are in the last word, the upper two above those of the
// first.
__device__ inline PackedLine based_line(const std::byte* block, int group) {
  const int shift = group % 4 * 8;
  const std::uint32_t first = load_as<std::uint32_t>(block, 1) >> shift,
                      second = load_as<std::uint32_t>(block, 2) >> shift;
  const std::uint32_t both = load_as<std::uint32_t>(block, 3) >> shift;
  const std::uint32_t factor = group < 4 ? first & 63 : (both & 15) | (first >> 2 & 48);
  const std::uint32_t base = group < 4 ? second & 63 : (both >> 4 & 15) | (second >> 2 & 48);
  return {half_at(block) * static_cast<float>(factor), -half_at(block + 2) * static_cast<float>(base)};
}

// Of number i of a block.
__device__ inline PackedLine packed_line(const std::byte* block, DType dtype, int i) {
  switch (dtype) {
    case DType::q4_k:
    case DType::q5_k:
      return based_line(block, i / 32);
    case DType::q6_k: {
      const float factor = half_at(block + 208) * static_cast<float>(load_as<std::int8_t>(block, 192 + i / 16));
      return {factor, -32.0f * factor};
    }
    case DType::q4_1:
    case DType::q5_1:
      return {half_at(block), half_at(block + 2)};
    default:
      return {half_at(block), (dtype == DType::q4_0   ? -8.0f
                               : dtype == DType::q5_0 ? -16.0f
                                                      : -128.0f) *
                                  half_at(block)};
  }
}

// Four neighbouring bits become bit 4 of four bytes.
__device__ inline std::uint32_t spread_bits(std::uint32_t bits) {
  return ((bits & 15) * 0x00204081u & 0x01010101u) << 4;
}

// The codes of numbers i to i + 3 of a block, side by side. i: a multiple of four.
__device__ inline std::uint32_t packed_codes(const std::byte* block, DType dtype, int i) {
  constexpr std::uint32_t kNibbles = 0x0F0F0F0Fu;
  const auto bits = [&](int at, int shift) {
    return word_at(block + at, dtype != DType::q4_0 && dtype != DType::q5_0 && dtype != DType::q6_k) >> shift;
  };
  switch (dtype) {
    case DType::q4_0:
      return bits(2 + i % 16, i / 16 * 4) & kNibbles;
    case DType::q4_1:
      return bits(4 + i % 16, i / 16 * 4) & kNibbles;
    case DType::q5_0:
      return (bits(6 + i % 16, i / 16 * 4) & kNibbles) | spread_bits(bits(2, i));
    case DType::q5_1:
      return (bits(8 + i % 16, i / 16 * 4) & kNibbles) | spread_bits(bits(4, i));
    case DType::q4_k:
      return bits(16 + i / 64 * 32 + i % 32, i / 32 % 2 * 4) & kNibbles;
    case DType::q5_k:
      return (bits(48 + i / 64 * 32 + i % 32, i / 32 % 2 * 4) & kNibbles) | (bits(16 + i % 32, i / 32) & 0x01010101u)
                                                                                << 4;
    case DType::q6_k:
      return (bits(i / 128 * 64 + i % 64, i % 128 / 64 * 4) & kNibbles) |
             (bits(128 + i / 128 * 32 + i % 32, i % 128 / 32 * 2) & 0x03030303u) << 4;
    default:  // q8_0, whose blocks are aligned to two
      return word_at(block + 2 + i, false) ^ 0x80808080u;
  }
}

__device__ inline float packed_value(const PackedLine& line, std::uint32_t codes, int i) {
  return fmaf(line.factor, static_cast<float>(codes >> i % 4 * 8 & 0xFF), line.base);
}

__device__ inline float packed_number(const std::byte* block, DType dtype, int i) {
  return packed_value(packed_line(block, dtype, i), packed_codes(block, dtype, i & ~3), i);
}

// Eight from i on, a multiple of eight.
template <DType kDtype>
__device__ inline void packed_eight(const std::byte* block, int i, float (&to)[8]) {
  const PackedLine line = packed_line(block, kDtype, i);
  const std::uint32_t codes[2] = {packed_codes(block, kDtype, i), packed_codes(block, kDtype, i + 4)};
#pragma unroll
  for (int n = 0; n < 8; ++n) to[n] = packed_value(line, codes[n / 4], n);
}

}  // namespace octavo::cuda
