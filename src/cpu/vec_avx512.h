// Vec of AVX-512: sixteen floats at a time, and the conversions that kernels need. For files named *_avx512.cc only.
//
// Kernels are templates over a Vec, so each instruction set gets functions of its own name: nothing here or in a
// *_kernel.h may be shared with an ordinary file, nor may these files use inline functions of other headers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace octavo::cpu::avx512 {

struct Vec {
  using F = __m512;
  static constexpr int kLanes = 16;
  // The register tiles that fit 32 registers: x rows by weight rows, query rows by vectors of keys.
  static constexpr int kLinearRows = 3;
  static constexpr int kLinearOuts = 8;
  static constexpr int kAttentionRows = 6;
  static constexpr int kAttentionVecs = 4;

  // Holds x in a register: g++ would rather read it from memory at each use.
  static void hold(F& x) { asm("" : "+v"(x)); }

  static F zero() { return _mm512_setzero_ps(); }
  static F all(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }  // b where either is NaN

  static F from_bf16(const std::uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static F from_f16(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F from_i8(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  // 32 unsigned bytes.
  static void from_u8(__m256i bytes, F* out) {
    out[0] = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_castsi256_si128(bytes)));
    out[1] = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_extracti128_si256(bytes, 1)));
  }
  // Nearest even; NaN stays NaN.
  static void to_bf16(std::uint16_t* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }

  // 32 numbers of a block of nibbles, d q + m: the sixteen possible values are computed once and looked up.
  static void nibbles(const std::uint8_t* q, float d, float m, F* out) {
    const F steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const F table = _mm512_fmadd_ps(steps, _mm512_set1_ps(d), _mm512_set1_ps(m));
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
    out[0] = _mm512_permutexvar_ps(codes, table);  // reads the lowest four bits
    out[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table);
  }

  // n codes of e8m0 as floats. 255, which is no number, comes out as infinity: no loader lets it in.
  static void e8m0(const std::uint8_t* p, std::int64_t n, float* out) {
    for (std::int64_t i = 0; i < n; i += 16) {
      const auto mask = static_cast<__mmask16>(n - i < 16 ? (1u << (n - i)) - 1 : 0xFFFFu);
      const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p + i)), 23);
      _mm512_mask_storeu_epi32(out + i, mask, _mm512_max_epu32(bits, _mm512_set1_epi32(0x400000)));  // 0: 2^-127
    }
  }
  // 32 numbers of e2m1 times d: those of the low nibbles, then those of the high ones.
  static void e2m1(const std::uint8_t* p, float d, F* out) {
    const F values = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    const F table = mul(values, all(d));
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    out[0] = _mm512_permutexvar_ps(codes, table);  // reads the lowest four bits
    out[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table);
  }

  // 32 codes of e4m3 as f16, 2^8 too small: exponent and mantissa shifted into their places. A NaN code comes out as
  // the finite 480 / 256: any_e4m3_nan() tells, with_e4m3_nan() mends.
  static __m512i halves_of_e4m3(const std::uint8_t* p) {
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16(static_cast<short>(0xBF80)));
  }
  // n codes of a cache, a multiple of 64; whether one of them is NaN. The cache has no negative NaN, and the other is
  // the largest signed byte.
  static bool e4m3_as_f16(const std::uint8_t* p, std::int64_t n, std::uint16_t* out) {
    __m512i most = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < n; i += 64) {
      _mm512_storeu_si512(out + i, halves_of_e4m3(p + i));
      _mm512_storeu_si512(out + i + 32, halves_of_e4m3(p + i + 32));
      most = _mm512_max_epi8(most, _mm512_loadu_si512(p + i));
    }
    return _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8(0x7F)) != 0;
  }
  static void e4m3(const std::uint8_t* p, F* out) {
    const __m512i half = halves_of_e4m3(p);
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
  }
  // Whether one of 32 codes is NaN, of either sign.
  static bool any_e4m3_nan(const std::uint8_t* p) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i all_ones = _mm256_set1_epi8(-1);
    return _mm256_cmpeq_epi8_mask(_mm256_or_si256(codes, _mm256_set1_epi8(-128)), all_ones) != 0;
  }
  // x with NaN where the code at p is NaN.
  static F with_e4m3_nan(const std::uint8_t* p, F x) {
    const __m128i codes = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(-128));
    return _mm512_mask_blend_ps(_mm_cmpeq_epi8_mask(codes, _mm_set1_epi8(-1)), x, all(__builtin_nanf("")));
  }
  // n codes of e5m2 as f16: the upper byte. n is a multiple of 32.
  static void e5m2_as_f16(const std::uint8_t* p, std::int64_t n, std::uint16_t* out) {
    for (std::int64_t i = 0; i < n; i += 32) {
      const __m512i wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i)));
      _mm512_storeu_si512(out + i, _mm512_slli_epi16(wide, 8));
    }
  }

  // Two f16 at p as floats.
  static void two_f16(const std::uint8_t* p, float* out) {
    _mm_storel_pi(reinterpret_cast<__m64*>(out), _mm_cvtph_ps(_mm_loadu_si32(p)));
  }

  // The sums over each of four vectors, every one in the same tree: lanes i and i + 8, then 4, 2, 1 apart.
  static void four_sums(F a, F b, F c, F d, float* out) {
    const F ab = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    const F cd = add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    const F abcd = add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    const F pairs = add(abcd, _mm512_permute_ps(abcd, 0x4E));
    const F sums = add(pairs, _mm512_permute_ps(pairs, 0xB1));
    const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(lanes, sums)));
  }
  static float sum(F x) {
    float sums[4];
    four_sums(x, x, x, x, sums);
    return sums[0];
  }
  static float max_lane(F x) { return _mm512_reduce_max_ps(x); }

  // Four numbers of each of kLanes rows, `stride` floats apart, turned: out[c] has number c of every row.
  static void turn_four(const float* p, std::int64_t stride, F* out) {
    F rows[4];  // quarter q of rows[i] comes of row 4 q + i
    for (int i = 0; i < 4; ++i) {
      const float* row = p + i * stride;
      rows[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
      rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 4 * stride), 1);
      rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 8 * stride), 2);
      rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 12 * stride), 3);
    }
    const __m512d low_a = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
    const __m512d low_b = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
    const __m512d high_a = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
    const __m512d high_b = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low_a, low_b));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low_a, low_b));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high_a, high_b));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high_a, high_b));
  }

  // Lanes whose index + begin lies in [low, high) keep x, the others take y.
  static F select_range(int begin, int low, int high, F x, F y) {
    const __m512i index = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                           _mm512_set1_epi32(begin));
    const __mmask16 inside = _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(low)) &
                             _mm512_cmplt_epi32_mask(index, _mm512_set1_epi32(high));
    return _mm512_mask_blend_ps(inside, y, x);
  }

  // e^x within 1.5 units of the last place; 0 below -104, infinity above 88.7, NaN for NaN.
  static F exp(F x) {
    x = _mm512_max_ps(all(-200.0f), x);
    x = _mm512_min_ps(all(200.0f), x);
    const F n = _mm512_roundscale_ps(mul(x, all(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const F f = fma(n, all(-1.42860677e-6f), fma(n, all(-0.693145752f), x));
    F tail = fma(all(0.0013926250f), f, all(0.0083632329f));
    tail = fma(tail, f, all(0.041666552f));
    tail = fma(tail, f, all(0.16666576f));
    tail = fma(tail, f, all(0.5f));
    const F y = add(fma(tail, mul(f, f), f), all(1.0f));
    return _mm512_scalef_ps(y, n);
  }

  // Whole numbers of 32 bits.
  using I = __m512i;
  static I ints(int x) { return _mm512_set1_epi32(x); }
  static I bits(F x) { return _mm512_castps_si512(x); }
  static F floats(I x) { return _mm512_castsi512_ps(x); }
  static I both(I a, I b) { return _mm512_and_si512(a, b); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  static I plus(I a, I b) { return _mm512_add_epi32(a, b); }
  template <int kBits>
  static I right(I x) {  // zeros move in
    return _mm512_srli_epi32(x, kBits);
  }
  template <int kBits>
  static I right_signed(I x) {
    return _mm512_srai_epi32(x, kBits);
  }
  static I larger(I a, I b) { return _mm512_max_epi32(a, b); }
  static I truncated(F x) { return _mm512_cvttps_epi32(x); }
  static I if_greater(I a, I b, I yes, I no) { return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), no, yes); }
  static int largest(I x) { return _mm512_reduce_max_epi32(x); }
  static void store_bytes(std::uint8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
  }
  static int count_greater(F a, F b) {
    return __builtin_popcount(static_cast<unsigned>(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)));
  }
  static F if_less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static F if_nan(F a, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), no, yes); }

  // Lane i becomes x_i + x_(i ^ kHalf), or their difference where bit kHalf of i is set.
  template <int kHalf>
  static F butterfly(F x) {
    F other;
    if constexpr (kHalf == 1) other = _mm512_permute_ps(x, 0xB1);
    if constexpr (kHalf == 2) other = _mm512_permute_ps(x, 0x4E);
    if constexpr (kHalf == 4) other = _mm512_shuffle_f32x4(x, x, 0xB1);
    if constexpr (kHalf == 8) other = _mm512_shuffle_f32x4(x, x, 0x4E);
    constexpr int kMask = kHalf == 1 ? 0xAAAA : kHalf == 2 ? 0xCCCC : kHalf == 4 ? 0xF0F0 : 0xFF00;
    return _mm512_mask_sub_ps(add(other, x), kMask, other, x);
  }

  // x less its nearest multiple of pi / 2, and that multiple.
  static F quarter_turns(F x, I& turns) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    const __m512d n_low = nearest_quarter(low);
    const __m512d n_high = nearest_quarter(high);
    turns = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtpd_epi32(n_low)), _mm512_cvtpd_epi32(n_high), 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(without_quarters(low, n_low))),
                              _mm512_cvtpd_ps(without_quarters(high, n_high)), 1);
  }
  static __m512d nearest_quarter(__m512d x) {
    return _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(0.63661977236758134)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m512d without_quarters(__m512d x, __m512d n) {
    return _mm512_fnmadd_pd(n, _mm512_set1_pd(1.5707963267948966), x);
  }
};

}  // namespace octavo::cpu::avx512
