// Numbers on their way into Hopper's products: rounding to e4m3 and bfloat16, and powers of two.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace octavo::cuda::sm90 {

// Two to the power of x on the FMA pipe, for x up to 126: the nearest integer becomes the exponent, the rest a
// polynomial. Wrong by 1.7e-3 at most, which e4m3 does not see.
__device__ __forceinline__ float power_of_two_by_fma(float x) {
  x = fmaxf(x, -126.0f);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  const float whole = x + kRound;
  const float rest = x - (whole - kRound);
  const float power = fmaf(fmaf(0.23842894f, rest, 0.70344801f), rest, 1.00044314f);
  return __int_as_float(__float_as_int(power) + (__float_as_int(whole) << 23));
}

// Four numbers as four bytes, the first lowest; saturates.
__device__ __forceinline__ std::uint32_t to_e4m3(float a, float b, float c, float d) {
  std::uint32_t codes;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(codes)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return codes;
}
__device__ __forceinline__ float4 from_e4m3(std::uint32_t codes) {
  std::uint32_t first, second;
  asm("{\n.reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;\n}"
      : "=r"(first), "=r"(second)
      : "r"(codes));
  const float2 ab = __half22float2(reinterpret_cast<__half2&>(first));
  const float2 cd = __half22float2(reinterpret_cast<__half2&>(second));
  return make_float4(ab.x, ab.y, cd.x, cd.y);
}
// What to_e4m3() left of them, times kTimes: number = code + rest / kTimes to 8 significant bits.
constexpr int kRestTimes = 16;  // of decodes, whose products of both are sums of their own
template <int kTimes>
__device__ __forceinline__ std::uint32_t rest_to_e4m3(std::uint32_t codes, float a, float b, float c, float d) {
  const float4 coded = from_e4m3(codes);
  return to_e4m3((a - coded.x) * kTimes, (b - coded.y) * kTimes, (c - coded.z) * kTimes, (d - coded.w) * kTimes);
}
__device__ __forceinline__ std::uint32_t to_bf16(float low, float high) {
  std::uint32_t two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
__device__ __forceinline__ float low_bf16(std::uint32_t two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high_bf16(std::uint32_t two) { return __uint_as_float(two & 0xFFFF0000u); }

// The power of two that brings the largest of some bfloat16 numbers, given by its bits as a float32 without sign, into
// [128, 256) of e4m3, and its inverse. Zeros and numbers at the ends of the range stay within float32.
struct QueryScale {
  float factor, inverse;
};
__device__ __forceinline__ QueryScale query_scale(std::uint32_t largest) {
  const int exponent = min(253, max(1, 261 - static_cast<int>(largest >> 23)));
  return {__int_as_float(exponent << 23), __int_as_float((254 - exponent) << 23)};
}

// What brings the largest of them to 127.
__device__ __forceinline__ QueryScale integer_scale(std::uint32_t largest) {
  const float most = fmaxf(__uint_as_float(largest), 1e-30f);
  return {127.0f / most, most / 127.0f};
}
// Two numbers within int8, rounded, as two bytes, the first lowest.
__device__ __forceinline__ std::uint32_t to_int8(float a, float b) {
  return (static_cast<std::uint32_t>(__float2int_rn(a)) & 0xFFu) |
         (static_cast<std::uint32_t>(__float2int_rn(b)) & 0xFFu) << 8;
}
__device__ __forceinline__ float shared_bf16(std::uint32_t address) {
  std::uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
  return __uint_as_float(std::uint32_t{bits} << 16);
}

}  // namespace octavo::cuda::sm90
