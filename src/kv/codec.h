// How one number, or one head's row, becomes the bits of a cached token and back. The same on host and device: a CPU
// test predicts the GPU. All functions are constexpr over plain pointers, so device code may call them.
#pragma once

#include <bit>
#include <cstdint>

#include "kv/format.h"
#include "tensor/float8.h"

namespace octavo {

// Largest magnitude that an element holds without saturating; codes of a given scale hold up to scale * this.
constexpr float max_value(KvElem elem) {
  switch (elem) {
    case KvElem::e4m3:
      return kMaxE4m3;
    case KvElem::e5m2:
      return kMaxE5m2;
    case KvElem::int8:
      return 127.0f;
    default:
      return 3.4028234e38f;
  }
}

// int8: value = code * scale, one bf16 scale per token and head. The writer of a row calls, in this order,
//   amax = row_amax(row);  scale = int8_scale(amax);  inverse = int8_inverse(scale);  code = int8_from_f32(x, inverse).
// A row that holds a NaN gets a NaN scale and zero codes: the whole row reads as NaN, as a NaN code does in the
// floating kinds, and no other row is touched. Infinities saturate to the largest code.

// The largest magnitude of a row; NaN if the row holds one (bits of magnitudes order like their values, NaN above
// infinity).
constexpr float row_amax(const float* row, int width) {
  std::uint32_t amax = 0;
  for (int i = 0; i < width; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(row[i]) & 0x7FFFFFFFu;
    if (magnitude > amax) amax = magnitude;
  }
  return std::bit_cast<float>(amax);
}

// amax / 127 rounded up to bf16, so that nothing clips. 0 (all codes 0) for rows whose amax / 127 is no normal float:
// their reciprocal would overflow, and they are zero beside any other row. From 2^127 on the row saturates, so that 127
// * scale stays finite.
constexpr std::uint16_t int8_scale(float amax) {
  if (amax < 127.0f * 0x1p-126f) return 0;
  return bf16_ceil_from_f32((amax > 0x1p127f ? 0x1p127f : amax) / 127.0f);
}

constexpr float int8_inverse(std::uint16_t scale) {
  const float value = f32_from_bf16(scale);
  return value > 0.0f ? 1.0f / value : 0.0f;  // 0 for NaN too: its codes are zero
}

// Nearest even of x * inverse_scale, clipped to +-127. The product is rounded to float first: it is then scaled by a
// power of two and rounded in whole numbers, so that no compiler can fuse the two steps and move a tie (fused
// multiply-add is the default of g++ and nvcc). A magnitude from 1/2 up to 127 is exact in 24 fractional bits; below
// 1/2 all is zero anyway.
constexpr std::int8_t int8_from_f32(float x, float inverse_scale) {
  float scaled = x * inverse_scale;
  if (!(scaled < 127.0f)) scaled = scaled == scaled ? 127.0f : 0.0f;  // NaN: infinity times zero
  if (scaled < -127.0f) scaled = -127.0f;
  const auto fixed = static_cast<std::int32_t>(scaled * 0x1p24f);
  return static_cast<std::int8_t>((fixed + 0x7FFFFF + ((fixed >> 24) & 1)) >> 24);
}

// The scale of a block of numbers in a floating kind, for the largest magnitude among them: amax / max_value. 0 (all
// codes 0) for blocks whose scale would be no normal float; infinities saturate.
constexpr float float8_scale(KvElem elem, float amax) {
  const float scale = (amax > 0x1p127f ? 0x1p127f : amax) / max_value(elem);
  return scale < 0x1p-126f ? 0.0f : scale;
}

// The 8-bit code of x for the floating kinds, where x is already divided by the scale (a true float division on every
// wing: multiplying by the reciprocal would move codes).
constexpr std::uint8_t encode8(KvElem elem, float x) {
  return elem == KvElem::e5m2 ? e5m2_from_f32(x) : e4m3_from_f32(x);
}
constexpr float decode8(KvElem elem, std::uint8_t code) {
  return elem == KvElem::e5m2   ? f32_from_e5m2(code)
         : elem == KvElem::int8 ? static_cast<float>(static_cast<std::int8_t>(code))
                                : f32_from_e4m3(code);
}

// Turns a row in place by the orthonormal Sylvester-Hadamard matrix, in blocks of hadamard_block(width). Its own
// inverse.
constexpr void hadamard(float* row, int width) {
  const int block = hadamard_block(width);
  float norm = 1.0f;  // 1 / sqrt(block), exact for even powers; otherwise sqrt(1/2) to float precision
  for (int n = block; n >= 4; n /= 4) norm *= 0.5f;
  int power = 0;
  for (int n = block; n > 1; n /= 2) ++power;
  if (power % 2 == 1) norm *= 0.70710678118654752f;
  for (int begin = 0; begin < width; begin += block) {
    for (int half = 1; half < block; half *= 2)
      for (int i = begin; i < begin + block; i += 2 * half)
        for (int j = i; j < i + half; ++j) {
          const float a = row[j];
          const float b = row[j + half];
          row[j] = a + b;
          row[j + half] = a - b;
        }
    for (int i = begin; i < begin + block; ++i) row[i] *= norm;
  }
}

}  // namespace octavo
