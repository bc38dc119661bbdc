// Groups of the packed kinds that need more than nibbles: q5_0, q5_1, q4_k, q5_k, q6_k (tensor/dtype.h has the
// layouts). 32 codes come together in the bytes of a 256-bit register, which AVX2 and AVX-512 both have, and are
// widened by the Vec. Everything is a template over it, so that no function is shared between instruction sets.
#pragma once

#include <immintrin.h>

#include "cpu/weight_groups.h"

namespace octavo::cpu {

template <class V>
struct ByteCodes {
  // Of 16 bytes the low nibbles, then the high ones.
  static __m256i nibbles(const std::uint8_t* p) {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(pairs), _mm_srli_epi16(pairs, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
  }
  // Of each of 32 bytes the bits of `mask` after a shift to the right. Neighbours' bits come in above the mask.
  static __m256i shifted(const std::uint8_t* p, int shift, char mask) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(mask));
  }
  // 16 for each number whose bit is set in the four bytes at p.
  static __m256i fifth_bits(const std::uint8_t* p) {
    const __m256i word = _mm256_broadcastd_epi32(_mm_loadu_si32(p));
    const __m256i bytes =
        _mm256_shuffle_epi8(word, _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    const __m256i own = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own), own);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
  }
  // step q + base
  static void place(__m256i codes, const StepAndBase& scale, typename V::F* w) {
    V::from_u8(codes, w);
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::fma(w[i], V::all(scale.step), V::all(scale.base));
  }
};

template <class V>
struct UnpackQ50 : CentredBlock<V, 22, 16> {
  using Scale = StepAndBase;
  using Codes = ByteCodes<V>;
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    Codes::place(_mm256_or_si256(Codes::nibbles(p + 6), Codes::fifth_bits(p + 2)), scale, w);
  }
};

template <class V>
struct UnpackQ51 : BasedBlock<V, 24> {
  using Scale = StepAndBase;
  using Codes = ByteCodes<V>;
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    Codes::place(_mm256_or_si256(Codes::nibbles(p + 8), Codes::fifth_bits(p + 4)), scale, w);
  }
};

// q4_k and q5_k: eight scales a block, 6 bits each of factors for step and base, packed in 12 bytes.
template <class V, int kBytesOfBlock>
struct SixBitBlock : BlockOf<kBytesOfBlock, 8> {
  using Scale = StepAndBase;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    for (std::int64_t i = 0; i < count; i += 8) make(row.bytes + (begin + i) / 8 * kBytesOfBlock, scales + i);
  }

 private:
  static void make(const std::uint8_t* block, StepAndBase* scales) {
    constexpr std::uint32_t kSixBits = 0x3F3F3F3F, kFourBits = 0x0F0F0F0F, kUpperBits = 0x30303030;
    float two[4];
    V::two_f16(block, two);
    std::uint32_t words[3];
    __builtin_memcpy(words, block + 4, sizeof words);
    const std::uint64_t last_steps = (words[2] & kFourBits) | (words[0] >> 2 & kUpperBits);
    const std::uint64_t last_bases = (words[2] >> 4 & kFourBits) | (words[1] >> 2 & kUpperBits);
    const __m256 steps = times((words[0] & kSixBits) | last_steps << 32, two[0]);
    const __m256 bases = times((words[1] & kSixBits) | last_bases << 32, -two[1]);
    const __m256 low = _mm256_unpacklo_ps(steps, bases);  // pairs 0, 1, 4, 5
    const __m256 high = _mm256_unpackhi_ps(steps, bases);
    auto* to = reinterpret_cast<float*>(scales);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }

  static __m256 times(std::uint64_t eight_bytes, float factor) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(eight_bytes));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_set1_ps(factor));
  }
};

template <class V>
struct UnpackQ4K : SixBitBlock<V, 144> {
  using Scale = StepAndBase;
  static void unpack(const std::uint8_t* block, int part, const Scale& scale, typename V::F* w) {
    ByteCodes<V>::place(ByteCodes<V>::shifted(block + 16 + part / 2 * kGroup, part % 2 * 4, 15), scale, w);
  }
};

template <class V>
struct UnpackQ5K : SixBitBlock<V, 176> {
  using Scale = StepAndBase;
  using Codes = ByteCodes<V>;
  static void unpack(const std::uint8_t* block, int part, const Scale& scale, typename V::F* w) {
    const __m256i low = Codes::shifted(block + 48 + part / 2 * kGroup, part % 2 * 4, 15);
    const __m256i fifth = _mm256_slli_epi16(Codes::shifted(block + 16, part, 1), 4);
    Codes::place(_mm256_or_si256(low, fifth), scale, w);
  }
};

// Steps for 16 numbers each; value = step (q - 32).
struct TwoSteps {
  float steps[2];
};

template <class V>
struct UnpackQ6K : BlockOf<210, 8> {
  using Scale = TwoSteps;
  using Codes = ByteCodes<V>;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    for (std::int64_t i = 0; i < count; i += 8) {
      const std::uint8_t* block = row.bytes + (begin + i) / 8 * UnpackQ6K::kBytes;
      float two[4];
      V::two_f16(block + 206, two);  // the last two of the four bytes: nothing beyond the block is read
      const __m256 step = _mm256_set1_ps(two[1]);
      auto* to = reinterpret_cast<float*>(scales + i);
      for (int half = 0; half < 2; ++half) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 192 + 8 * half));
        _mm256_storeu_ps(to + 8 * half, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), step));
      }
    }
  }
  static void unpack(const std::uint8_t* block, int part, const Scale& scale, typename V::F* w) {
    const int group = part % 4;
    const __m256i low = Codes::shifted(block + part / 4 * 64 + group % 2 * kGroup, group / 2 * 4, 15);
    const __m256i high = Codes::shifted(block + 128 + part / 4 * kGroup, 2 * group, 3);
    V::from_u8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), w);
    constexpr int kVecs = kGroup / V::kLanes;
    for (int i = 0; i < kVecs; ++i) {
      const float step = scale.steps[i / (kVecs / 2)];
      w[i] = V::fma(w[i], V::all(step), V::all(-32.0f * step));
    }
  }
};

}  // namespace octavo::cpu
