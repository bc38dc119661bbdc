// Vec of AVX2 with FMA and F16C: eight floats at a time. The twin of vec_avx512.h; see there. For *_avx2.cc only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace octavo::cpu::avx2 {

struct Vec {
  using F = __m256;
  static constexpr int kLanes = 8;
  // The register tiles that fit 16 registers.
  static constexpr int kLinearRows = 3;
  static constexpr int kLinearOuts = 4;
  static constexpr int kAttentionRows = 6;
  static constexpr int kAttentionVecs = 2;

  static void hold(F& x) { asm("" : "+x"(x)); }

  static F zero() { return _mm256_setzero_ps(); }
  static F all(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }

  static F from_bf16(const std::uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static F from_f16(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F from_i8(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static void from_u8(__m256i bytes, F* out) {
    const __m128i low = _mm256_castsi256_si128(bytes);
    const __m128i high = _mm256_extracti128_si256(bytes, 1);
    out[0] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low));
    out[1] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8)));
    out[2] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high));
    out[3] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(high, 8)));
  }
  static void to_bf16(std::uint16_t* p, F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i even = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(even, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }

  static void nibbles(const std::uint8_t* q, float d, float m, F* out) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
    const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const F step = _mm256_set1_ps(d);
    const F base = _mm256_set1_ps(m);
    out[0] = fma(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)), step, base);
    out[1] = fma(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8))), step, base);
    out[2] = fma(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)), step, base);
    out[3] = fma(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(high, 8))), step, base);
  }

  // n codes of e8m0 as floats. 255, which is no number, comes out as infinity: no loader lets it in.
  static void e8m0(const std::uint8_t* p, std::int64_t n, float* out) {
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i)));
      const __m256i bits = _mm256_max_epu32(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x400000));  // 0: 2^-127
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
    }
    for (; i < n; ++i) out[i] = __builtin_bit_cast(float, p[i] == 0 ? 0x400000u : std::uint32_t{p[i]} << 23);
  }
  // 32 numbers of e2m1 times d: those of the low nibbles, then those of the high ones. Twice a number is a whole one.
  static void e2m1(const std::uint8_t* p, float d, F* out) {
    const __m128i doubled = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i low = _mm_shuffle_epi8(doubled, _mm_and_si128(pairs, _mm_set1_epi8(15)));
    const __m128i high = _mm_shuffle_epi8(doubled, _mm_and_si128(_mm_srli_epi16(pairs, 4), _mm_set1_epi8(15)));
    const F step = _mm256_set1_ps(0.5f * d);
    out[0] = mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)), step);
    out[1] = mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8))), step);
    out[2] = mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)), step);
    out[3] = mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8))), step);
  }

  static __m256i sixteen_e4m3(const std::uint8_t* p) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBF80)));
  }
  static bool e4m3_as_f16(const std::uint8_t* p, std::int64_t n, std::uint16_t* out) {
    __m128i most = _mm_setzero_si128();
    for (std::int64_t i = 0; i < n; i += 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), sixteen_e4m3(p + i));
      most = _mm_max_epi8(most, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)));
    }
    return _mm_movemask_epi8(_mm_cmpeq_epi8(most, _mm_set1_epi8(0x7F))) != 0;
  }
  static void e4m3(const std::uint8_t* p, F* out) {
    for (int i = 0; i < 2; ++i) {
      const __m256i half = sixteen_e4m3(p + 16 * i);
      out[2 * i] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
      out[2 * i + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
    }
  }
  static bool any_e4m3_nan(const std::uint8_t* p) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i magnitudes = _mm256_or_si256(codes, _mm256_set1_epi8(-128));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(magnitudes, _mm256_set1_epi8(-1))) != 0;
  }
  static F with_e4m3_nan(const std::uint8_t* p, F x) {
    const __m128i codes = _mm_or_si128(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(-128));
    const __m128i nan = _mm_cmpeq_epi8(codes, _mm_set1_epi8(-1));
    return _mm256_blendv_ps(x, all(__builtin_nanf("")), _mm256_castsi256_ps(_mm256_cvtepi8_epi32(nan)));
  }
  static void e5m2_as_f16(const std::uint8_t* p, std::int64_t n, std::uint16_t* out) {
    for (std::int64_t i = 0; i < n; i += 16) {
      const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_slli_epi16(wide, 8));
    }
  }

  static void two_f16(const std::uint8_t* p, float* out) {
    _mm_storel_pi(reinterpret_cast<__m64*>(out), _mm_cvtph_ps(_mm_loadu_si32(p)));
  }

  // Lanes i and i + 4, then 2, 1 apart.
  static void four_sums(F a, F b, F c, F d, float* out) {
    const F ab = add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    const F cd = add(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    const F acbd = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));  // (a, a, c, c), (b, b, d, d)
    const F sums = add(acbd, _mm256_permute_ps(acbd, 0xB1));
    const __m128 ac = _mm256_castps256_ps128(sums);
    const __m128 bd = _mm256_extractf128_ps(sums, 1);
    const __m128 mixed = _mm_shuffle_ps(ac, bd, 0x88);  // a, c, b, d
    _mm_storeu_ps(out, _mm_shuffle_ps(mixed, mixed, 0xD8));
  }
  static float sum(F x) {
    float sums[4];
    four_sums(x, x, x, x, sums);
    return sums[0];
  }
  static float max_lane(F x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  static void turn_four(const float* p, std::int64_t stride, F* out) {
    F rows[4];  // half h of rows[i] comes of row 4 h + i
    for (int i = 0; i < 4; ++i)
      rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + i * stride)),
                                     _mm_loadu_ps(p + (i + 4) * stride), 1);
    const __m256d low_a = _mm256_castps_pd(_mm256_unpacklo_ps(rows[0], rows[1]));
    const __m256d low_b = _mm256_castps_pd(_mm256_unpacklo_ps(rows[2], rows[3]));
    const __m256d high_a = _mm256_castps_pd(_mm256_unpackhi_ps(rows[0], rows[1]));
    const __m256d high_b = _mm256_castps_pd(_mm256_unpackhi_ps(rows[2], rows[3]));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low_a, low_b));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low_a, low_b));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high_a, high_b));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high_a, high_b));
  }

  static F select_range(int begin, int low, int high, F x, F y) {
    const __m256i index = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(begin));
    const __m256i from_low = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(low - 1));
    const __m256i below_high = _mm256_cmpgt_epi32(_mm256_set1_epi32(high), index);
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(_mm256_and_si256(from_low, below_high)));
  }

  static F power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static F exp(F x) {
    x = _mm256_max_ps(all(-170.0f), x);
    x = _mm256_min_ps(all(170.0f), x);  // halves of n must stay within the exponents
    const F n = _mm256_round_ps(mul(x, all(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const F f = fma(n, all(-1.42860677e-6f), fma(n, all(-0.693145752f), x));
    F tail = fma(all(0.0013926250f), f, all(0.0083632329f));
    tail = fma(tail, f, all(0.041666552f));
    tail = fma(tail, f, all(0.16666576f));
    tail = fma(tail, f, all(0.5f));
    const F y = add(fma(tail, mul(f, f), f), all(1.0f));
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return mul(mul(y, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }

  using I = __m256i;
  static I ints(int x) { return _mm256_set1_epi32(x); }
  static I bits(F x) { return _mm256_castps_si256(x); }
  static F floats(I x) { return _mm256_castsi256_ps(x); }
  static I both(I a, I b) { return _mm256_and_si256(a, b); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  static I plus(I a, I b) { return _mm256_add_epi32(a, b); }
  template <int kBits>
  static I right(I x) {
    return _mm256_srli_epi32(x, kBits);
  }
  template <int kBits>
  static I right_signed(I x) {
    return _mm256_srai_epi32(x, kBits);
  }
  static I larger(I a, I b) { return _mm256_max_epi32(a, b); }
  static I truncated(F x) { return _mm256_cvttps_epi32(x); }
  static I if_greater(I a, I b, I yes, I no) { return _mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(a, b)); }
  static int largest(I x) {
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  static void store_bytes(std::uint8_t* p, I x) {
    const __m256i first = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                                           -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i fours = _mm256_shuffle_epi8(x, first);
    const __m128i eight = _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), eight);
  }
  static int count_greater(F a, F b) {
    return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ))));
  }
  static F if_less(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
  static F if_nan(F a, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }

  template <int kHalf>
  static F butterfly(F x) {
    F other;
    if constexpr (kHalf == 1) other = _mm256_permute_ps(x, 0xB1);
    if constexpr (kHalf == 2) other = _mm256_permute_ps(x, 0x4E);
    if constexpr (kHalf == 4) other = _mm256_permute2f128_ps(x, x, 1);
    constexpr int kMask = kHalf == 1 ? 0xAA : kHalf == 2 ? 0xCC : 0xF0;
    return _mm256_blend_ps(add(other, x), sub(other, x), kMask);
  }

  static F quarter_turns(F x, I& turns) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    const __m256d n_low = nearest_quarter(low);
    const __m256d n_high = nearest_quarter(high);
    turns = _mm256_set_m128i(_mm256_cvtpd_epi32(n_high), _mm256_cvtpd_epi32(n_low));
    return _mm256_set_m128(_mm256_cvtpd_ps(without_quarters(high, n_high)),
                           _mm256_cvtpd_ps(without_quarters(low, n_low)));
  }
  static __m256d nearest_quarter(__m256d x) {
    return _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(0.63661977236758134)),
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m256d without_quarters(__m256d x, __m256d n) {
    return _mm256_fnmadd_pd(n, _mm256_set1_pd(1.5707963267948966), x);
  }
};

}  // namespace octavo::cpu::avx2
