// How one number, or one head's row, becomes the bits of a cached token and back. The same on host and device: a CPU test
// predicts the GPU. All functions are constexpr over plain pointers, so device code may call them.
#pragma once

#include <cstdint>

#include "kv/format.h"
#include "tensor/float8.h"

namespace octavo {

// Largest magnitude that an element holds without saturating; codes of a given scale hold up to scale * this.
constexpr float max_value(KvElem elem) {
  switch (elem) {
    case KvElem::e4m3: return kMaxE4m3;
    case KvElem::e5m2: return kMaxE5m2;
    case KvElem::int8: return 127.0f;
    default: return 3.4028234e38f;
  }
}

// int8 has one scale per token and head: amax / 127 rounded up to bf16, so that nothing clips. An all-zero row has scale 0.
constexpr std::uint16_t int8_scale(float amax) { return bf16_ceil_from_f32(amax / 127.0f); }

constexpr std::int8_t int8_from_f32(float x, float inverse_scale) {
  const float scaled = x * inverse_scale;  // |scaled| <= 127 by the choice of scale
  const float shifted = scaled + 12582912.0f;  // 1.5 * 2^23: the sum rounds to a whole number, nearest even
  const float rounded = shifted - 12582912.0f;
  return static_cast<std::int8_t>(rounded > 127.0f ? 127.0f : rounded < -127.0f ? -127.0f : rounded);
}

// The 8-bit code of x / scale for the floating kinds.
constexpr std::uint8_t encode8(KvElem elem, float x) { return elem == KvElem::e5m2 ? e5m2_from_f32(x) : e4m3_from_f32(x); }
constexpr float decode8(KvElem elem, std::uint8_t code) {
  return elem == KvElem::e5m2 ? f32_from_e5m2(code)
         : elem == KvElem::int8 ? static_cast<float>(static_cast<std::int8_t>(code)) : f32_from_e4m3(code);
}

// Turns a row in place by the orthonormal Sylvester-Hadamard matrix, in blocks of hadamard_block(width). Its own inverse.
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
