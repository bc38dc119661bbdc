// WarpRows: the 16 query rows of one warp on their way over the cache. Scores of a piece of a page, the running
// softmax, and the weighted sum of V, all in registers; K and V are read from a page's image in shared memory.
//
// A lane (g = lane / 4, c = lane % 4) holds of rows g and g + 8: of scores the tokens 8 n + 2 c, + 1, of sums the
// numbers 8 n + 2 c, + 1. For K in 8 bits a lane's four neighbouring bytes are taken as the four numbers that the
// product wants of it; queries are loaded in that order, so nothing is shuffled. Weights that enter a float16 product
// are 2^14 times larger, queries are scaled by a power of two a row: both keep small numbers from rounding to zero and
// cancel.
#pragma once

#include "cuda/page_layout.cuh"
#include "cuda/portable/mma.cuh"

namespace octavo::cuda::portable {

constexpr float kLog2e = 1.44269504f;
__device__ inline float minus_infinity() { return __int_as_float(0xFF800000); }

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What turns products into scores; the same for all rows of a launch, but `scale` holds the K scale of the head.
struct ScoreRule {
  float scale;     // times log2(e), unless capped
  float soft_cap;  // > 0: cap
};

template <int kWidth, KvElem kKey, KvElem kValue>
class WarpRows {
 public:
  static constexpr Operand kKeyOperand = kKey == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;

  float sums[kWidth / 8][4];
  float maximum[2];
  float weight[2];    // sums of weights, of this lane's tokens until reduce() was called
  float unit = 1.0f;  // what sums are counted in: int8 has scales a token, of which only ratios enter a float16 product

  // rows: this lane's two, of `kWidth` numbers; null reads as zeros.
  __device__ void start(const __nv_bfloat16* const (&rows)[2]) {
    const int c = threadIdx.x % 4;
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        uint2 four = make_uint2(0, 0);
        if (rows[row] != nullptr) {
          if constexpr (kKey == KvElem::bf16) {
            four.x = *reinterpret_cast<const std::uint32_t*>(rows[row] + 16 * step + 2 * c);
            four.y = *reinterpret_cast<const std::uint32_t*>(rows[row] + 16 * step + 2 * c + 8);
          } else {
            four = *reinterpret_cast<const uint2*>(rows[row] + 16 * step + 4 * c);
          }
        }
        query_[step][row] = four.x;
        query_[step][row + 2] = four.y;
      }
    row_scale_[0] = row_scale_[1] = 1.0f;
    if constexpr (kKeyOperand == Operand::f16) scale_query();
#pragma unroll
    for (auto& sum : sums) sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
    maximum[0] = maximum[1] = minus_infinity();
    weight[0] = weight[1] = 0.0f;
    if constexpr (kValue == KvElem::int8) unit = 0x1p-100f;
  }

  // Tokens [place, place + 8 * kBlocks) of the page at `page`; the lane's rows see the page's places [first, end).
  template <int kBlocks>
  __device__ void take(std::uint32_t page, const std::byte* page_data, const PageLayout& layout, int place,
                       const int (&first)[2], const int (&end)[2], bool masked, const ScoreRule& rule) {
    float scores[kBlocks][4];
    multiply_keys<kBlocks>(page, place, scores);
    scale_scores<kBlocks>(page_data + layout.key_scales, place, rule, scores);
    if (masked) mask<kBlocks>(place, first, end, scores);
    weigh<kBlocks>(scores);
    if constexpr (kValue == KvElem::int8) scale_weights<kBlocks>(page_data + layout.value_scales, place, scores);
    multiply_values<kBlocks>(page + layout.value_block, place, scores);
  }

  // Makes weight[] those of whole rows.
  __device__ void reduce() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
      weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
    }
  }

 private:
  // To float16, the largest number of a row brought near 2^14.
  __device__ void scale_query() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      std::uint32_t most = 0;
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t two = query_[step][row + 2 * half];
          most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
        }
      most = max(most, __shfl_xor_sync(~0u, most, 1));
      most = max(most, __shfl_xor_sync(~0u, most, 2));
      const int exponent = min(254 - 1, max(1, 268 - static_cast<int>(most >> 23)));
      const float factor = __int_as_float(exponent << 23);
      row_scale_[row] = __int_as_float((254 - exponent) << 23);
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t& two = query_[step][row + 2 * half];
          two = packed<Operand::f16>(__uint_as_float(two << 16) * factor, __uint_as_float(two & 0xFFFF0000u) * factor);
        }
    }
  }

  template <int kBlocks>
  __device__ void multiply_keys(std::uint32_t page, int place, float (&scores)[kBlocks][4]) {
    constexpr int kRow = kWidth * elem_bytes(kKey);
    constexpr int kChunk = kRow < 128 ? kRow : 128;
    const int lane = threadIdx.x % 32, r = lane % 8;
    const int piece = (lane / 8) ^ (kChunk == 128 ? r : (r >> 1) & 3);
    const std::uint32_t from = page + (place + r) * kChunk + (piece << 4);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
    for (int part = 0; part < kRow / 64; ++part) {
      const std::uint32_t at =
          (from ^ (kChunk == 128 ? (part & 1) << 6 : 0)) + part * 64 / kChunk * kPageTokens * kChunk;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        std::uint32_t k[4];
        load_matrices(k, at + n * 8 * kChunk);
        if constexpr (kKey == KvElem::bf16) {
          multiply_add<kKeyOperand>(scores[n], query_[2 * part], k[0], k[1]);
          multiply_add<kKeyOperand>(scores[n], query_[2 * part + 1], k[2], k[3]);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            std::uint32_t low, high;
            unpack<kKey>(k[i], low, high);
            multiply_add<kKeyOperand>(scores[n], query_[4 * part + i], low, high);
          }
        }
      }
    }
  }

  // Two tokens' scales, bfloat16 side by side.
  __device__ static float2 two_scales(const std::byte* scales, int token) {
    const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(scales + 2 * token);
    return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000u));
  }

  template <int kBlocks>
  __device__ void scale_scores(const std::byte* scales, int place, const ScoreRule& rule, float (&scores)[kBlocks][4]) {
    const float factor[2] = {rule.scale * row_scale_[0], rule.scale * row_scale_[1]};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      float2 of_token = make_float2(1.0f, 1.0f);
      if constexpr (kKey == KvElem::int8) of_token = two_scales(scales, place + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float score = scores[n][i] * factor[i / 2];
        if constexpr (kKey == KvElem::int8) score *= i % 2 == 0 ? of_token.x : of_token.y;
        scores[n][i] = score;
      }
    }
    if (rule.soft_cap <= 0.0f) return;
    const float inverse = 1.0f / rule.soft_cap, back = rule.soft_cap * kLog2e;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = back * tanhf(scores[n][i] * inverse);
  }

  template <int kBlocks>
  __device__ static void mask(int place, const int (&first)[2], const int (&end)[2], float (&scores)[kBlocks][4]) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = place + 8 * n + threadIdx.x % 4 * 2 + i % 2;
        if (token < first[i / 2] || token >= end[i / 2]) scores[n][i] = minus_infinity();
      }
  }

  // Scores become weights under the running maximum.
  template <int kBlocks>
  __device__ void weigh(float (&scores)[kBlocks][4]) {
    float most[2] = {maximum[0], maximum[1]};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
    float factor[2], shift[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      most[row] = fmaxf(most[row], __shfl_xor_sync(~0u, most[row], 1));
      most[row] = fmaxf(most[row], __shfl_xor_sync(~0u, most[row], 2));
      const float base = most[row] == minus_infinity() ? 0.0f : most[row];  // nothing seen yet
      factor[row] = power_of_two(maximum[row] - base);
      shift[row] = kWeightBits - base;
      maximum[row] = most[row];
      weight[row] *= factor[row];
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = power_of_two(scores[n][i] + shift[i / 2]);
        weight[i / 2] += scores[n][i];
      }
    if (!__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
    for (auto& sum : sums) {
      sum[0] *= factor[0];
      sum[1] *= factor[0];
      sum[2] *= factor[1];
      sum[3] *= factor[1];
    }
  }

  template <int kBlocks>
  __device__ void scale_weights(const std::byte* scales, int place, float (&weights)[kBlocks][4]) {
    const int token = place + threadIdx.x % 4 * 2;
    float most = unit;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float2 of_token = two_scales(scales, token + 8 * n);
      most = fmaxf(most, fmaxf(of_token.x, of_token.y));
    }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    raise_unit(fmaxf(most, __shfl_xor_sync(~0u, most, 2)));
    const float inverse = 1.0f / unit;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float2 of_token = two_scales(scales, token + 8 * n);
      weights[n][0] *= of_token.x * inverse;
      weights[n][1] *= of_token.y * inverse;
      weights[n][2] *= of_token.x * inverse;
      weights[n][3] *= of_token.y * inverse;
    }
  }

  // The unit is the power of two below the largest scale so far; all lanes have the same.
  __device__ void raise_unit(float scale) {
    const float larger = __uint_as_float(min(__float_as_uint(scale) & 0x7F800000u, 0x7E000000u));
    if (larger <= unit) return;
    const float factor = unit / larger;
    unit = larger;
#pragma unroll
    for (auto& sum : sums)
#pragma unroll
      for (float& x : sum) x *= factor;
  }

  template <int kBlocks>
  __device__ void multiply_values(std::uint32_t block, int place, const float (&weights)[kBlocks][4]) {
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      const std::uint32_t a[4] = {packed<kValueOperand>(weights[n][0], weights[n][1]),
                                  packed<kValueOperand>(weights[n][2], weights[n][3]),
                                  packed<kValueOperand>(weights[n + 1][0], weights[n + 1][1]),
                                  packed<kValueOperand>(weights[n + 1][2], weights[n + 1][3])};
      if constexpr (kValue == KvElem::bf16) {
        multiply_rows(block, place + 8 * n, a);
      } else {
        multiply_columns(block, place + 8 * n, a);
      }
    }
  }

  // 16 tokens of V in bfloat16, token after token.
  __device__ void multiply_rows(std::uint32_t block, int place, const std::uint32_t (&a)[4]) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const std::uint32_t from = block + (place + 8 * (m & 1) + r) * 128;
#pragma unroll
    for (int d = 0; d < kWidth / 16; ++d) {
      std::uint32_t v[4];
      load_transposed(v, from + (((2 * (d % 4) + (m >> 1)) ^ r) << 4) + d / 4 * kPageTokens * 128);
      multiply_add<kValueOperand>(sums[2 * d], a, v[0], v[1]);
      multiply_add<kValueOperand>(sums[2 * d + 1], a, v[2], v[3]);
    }
  }

  // 16 tokens of V in 8 bits, number after number.
  __device__ void multiply_columns(std::uint32_t block, int place, const std::uint32_t (&a)[4]) {
    const int lane = threadIdx.x % 32;
    const std::uint32_t from = block + lane * kPageTokens + (((place >> 4) ^ ((lane >> 1) & 3)) << 4);
#pragma unroll
    for (int d = 0; d < kWidth / 32; ++d) {
      std::uint32_t v[4];
      load_matrices(v, from + d * 32 * kPageTokens);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t low, high;
        unpack<kValue>(v[i], low, high);
        multiply_add<kValueOperand>(sums[4 * d + i], a, low, high);
      }
    }
  }

  std::uint32_t query_[kWidth / 16][4];
  float row_scale_[2];
};

}  // namespace octavo::cuda::portable
