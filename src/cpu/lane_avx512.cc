// What goes into the products of lane_tile.h and comes out of them, on AVX-512.
#include "cpu/lane_tile.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

namespace {

float power_of_two(int exponent) { return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((exponent + 127) << 23))); }

__m512i whole_numbers(__m512 x, float factor) {
  const __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(factor)));
  return _mm512_min_epi32(v, _mm512_set1_epi32(127 * 256 + 127));  // of 2^15 - 2^7 two bytes do not hold the last bit
}

void store_bytes(std::int8_t* to, __m512i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v));
}

void split_group(const std::uint16_t* x, std::int8_t* codes, float* scale, float* sum) {
  const __m512 low = Vec::from_bf16(x);
  const __m512 high = Vec::from_bf16(x + kLaneGroup / 2);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512i most = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(high), magnitude));
  // As integers, NaN is above infinity and that above all numbers. 2^exponent is at most the largest number.
  int exponent = (_mm512_reduce_max_epi32(most) >> 23) - 127;
  const bool finite = exponent < 128;
  exponent = exponent < -100 ? -100 : exponent;  // smaller ones would have no factor
  const float step = finite ? power_of_two(exponent - 14) : __builtin_nanf("");
  const float factor = finite ? power_of_two(14 - exponent) : 0.0f;
  const __m512i v_low = whole_numbers(low, factor);
  const __m512i v_high = whole_numbers(high, factor);
  const __m512i half = _mm512_set1_epi32(128);
  store_bytes(codes, _mm512_srai_epi32(_mm512_add_epi32(v_low, half), 8));
  store_bytes(codes + 16, _mm512_srai_epi32(_mm512_add_epi32(v_high, half), 8));
  store_bytes(codes + 32, v_low);
  store_bytes(codes + 48, v_high);
  *scale = step;
  *sum = step * static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(v_low, v_high)));
}

}  // namespace

void split_row(const std::uint16_t* x, std::int64_t groups, std::int8_t* codes, float* scales, float* sums) {
  for (std::int64_t g = 0; g < groups; ++g)
    split_group(x + g * kLaneGroup, codes + g * kLaneSet * kLaneRowBytes, scales + g * kLaneSet, sums + g * kLaneSet);
}

void store_lanes(const float* y, int rows, std::uint16_t* out, std::int64_t stride) {
  for (int r = 0; r < rows; ++r) Vec::to_bf16(out + r * stride, Vec::load(y + r * kLaneOuts));
}

}  // namespace octavo::cpu::avx512
