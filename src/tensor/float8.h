// Small floating formats as bits: bf16, f16, e4m3 (e4m3fn), e5m2. Nearest even everywhere, on host and device alike.
//
// To 8 bits we saturate: finite overflow and infinity become the largest finite value (448, 57,344) with their sign.
// NaN stays NaN and becomes 0x7F; its sign is dropped, as the GPU's saturating conversion does.
// Source of the rules: OCP 8-bit floating point specification 1.0; models.md 10.1. Bit-equal to ml_dtypes where both
// are finite.
#pragma once

#include <bit>
#include <cstdint>

namespace octavo {

constexpr float kMaxE4m3 = 448.0f;
constexpr float kMaxE5m2 = 57344.0f;

constexpr std::uint16_t bf16_from_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The smallest bf16 that is not below x >= +0; NaN stays NaN.
constexpr std::uint16_t bf16_ceil_from_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
  return static_cast<std::uint16_t>((bits + 0xFFFFu) >> 16);
}

constexpr float f32_from_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude + 0x1C000u) << 13));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

constexpr std::uint16_t f16_from_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // rounds past 65,504
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 lets the hardware round to a multiple of 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000u));
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - 0x1C000u));
}

constexpr float f32_from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (magnitude >= 8u) return std::bit_cast<float>(sign | ((magnitude + 0x3C0u) << 20));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  return sign != 0 ? -subnormal : subnormal;
}

constexpr std::uint8_t e4m3_from_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0x7Fu;
  if (magnitude >= 0x43E00000u) return static_cast<std::uint8_t>(sign | 0x7Eu);  // >= 448
  if (magnitude < 0x3C800000u) {  // below 2^-6: adding 2^14 rounds to a multiple of 2^-9
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x46800000u));
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - 0x3C0u));
}

constexpr float f32_from_e5m2(std::uint8_t code) { return f32_from_f16(static_cast<std::uint16_t>(code << 8)); }

constexpr std::uint8_t e5m2_from_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0x7Fu;
  if (magnitude >= 0x47600000u) return static_cast<std::uint8_t>(sign | 0x7Bu);  // >= 57,344
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 2^7 rounds to a multiple of 2^-16
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p7f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x43000000u));
  }
  const std::uint32_t rounded = magnitude + 0xFFFFFu + ((magnitude >> 21) & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded >> 21) - 0x1C0u));
}

constexpr float f32_from_e2m1(std::uint8_t nibble) {
  const int magnitude = nibble & 7;
  const float value = magnitude < 2 ? 0.5f * static_cast<float>(magnitude)
                                    : static_cast<float>((2 + magnitude % 2) << (magnitude / 2)) / 4.0f;
  return (nibble & 8) != 0 ? -value : value;
}

constexpr float f32_from_e8m0(std::uint8_t code) {
  return code == 0     ? 0x1p-127f
         : code == 255 ? std::bit_cast<float>(0x7FC00000u)
                       : std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

}  // namespace octavo
