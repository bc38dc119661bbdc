// WarpRows: the 16 query rows of one warp on their way over the cache. Scores of a piece of a page, the running
// softmax, and the weighted sum of V, all in registers; K and V are read from a page's image in shared memory.
//
// A lane (g = lane / 4, c = lane % 4) holds of rows g and g + 8: of scores the tokens 8 n + 2 c, + 1, of sums the
// numbers 8 n + 2 c, + 1. For K in 8 bits a lane's four neighbouring bytes are taken as the four numbers that the
// product wants of it; queries are loaded in that order, so nothing is shuffled. Weights that enter a float16 product
// are 2^14 times larger, queries are scaled by a power of two a row: both keep small numbers from rounding to zero and
// cancel. Queries of wide heads lie in shared memory, as fragments, for want of registers.
#pragma once

#include "cuda/portable/unpacked_image.cuh"

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

  __device__ ScoreRule(const AttentionParams& p, int kv_head) : soft_cap(p.soft_cap) {
    scale = p.scale * (p.key_scales != nullptr ? p.key_scales[kv_head] : 1.0f) * (soft_cap > 0.0f ? 1.0f : kLog2e);
  }
};

// Two tokens' scales, side by side, of a page as it comes or unpacked.
template <bool kUnpacked>
__device__ float2 two_scales(const std::byte* scales, int token) {
  if constexpr (kUnpacked) return *reinterpret_cast<const float2*>(scales + 4 * token);
  const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(scales + 2 * token);
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000u));
}

// kUnpacked: pages come as UnpackedImage. kQueryShared: queries lie in shared memory.
template <int kWidth, KvElem kKey, KvElem kValue, bool kUnpacked, bool kQueryShared>
class WarpRows {
 public:
  using Image = std::conditional_t<kUnpacked, UnpackedImage<kWidth, kKey, kValue>, PageImage<kWidth, kKey, kValue>>;
  static constexpr bool kKeyInBytes = is_8bit(kKey) && !kUnpacked;
  static constexpr bool kValueInBytes = is_8bit(kValue) && !kUnpacked;
  static constexpr Operand kKeyOperand = kKey == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;
  static constexpr int kSteps = kWidth / 16;
  static constexpr int kQueryBytes = kQueryShared ? kSteps * 32 * 16 : 0;

  float sums[kWidth / 8][4];
  float maximum[2];   // of products until reduce() was called
  float weight[2];    // sums of weights, of this lane's tokens until reduce() was called
  float unit = 1.0f;  // what sums are counted in: int8 has scales a token, of which only ratios enter a float16 product

  // rows: this lane's two, of `width` numbers; null reads as zeros. shared_query: kQueryBytes for `sharers` warps that
  // have the same rows; a barrier stands before the first take().
  __device__ void start(const __nv_bfloat16* const (&rows)[2], int width, const ScoreRule& rule,
                        std::byte* shared_query, int sharers) {
    std::uint32_t query[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint2 four = load_query(rows[row], step, width);
        query[step][row] = four.x;
        query[step][row + 2] = four.y;
      }
    factor_[0] = factor_[1] = 1.0f;
    if constexpr (kKeyOperand == Operand::f16) scale_query(query);
    for (float& factor : factor_) factor = fmaxf(factor * rule.scale, 1e-37f);  // a mask of minus infinity stays one
    soft_cap_ = rule.soft_cap;
    if constexpr (kQueryShared) {
      shared_query_ = reinterpret_cast<uint4*>(shared_query) + threadIdx.x % 32;
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        if (sharers == 1 || step % sharers == static_cast<int>(threadIdx.x) / 32)
          shared_query_[32 * step] = make_uint4(query[step][0], query[step][1], query[step][2], query[step][3]);
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) query_[step][i] = query[step][i];
    }
#pragma unroll
    for (auto& sum : sums) sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
    maximum[0] = maximum[1] = minus_infinity();
    weight[0] = weight[1] = 0.0f;
    if constexpr (kValue == KvElem::int8) unit = 0x1p-100f;
  }

  // Tokens [place, place + 8 * kBlocks) of the page at `page`; the lane's rows see the page's places [first, end).
  template <int kBlocks>
  __device__ void take(const std::byte* page, int place, const int (&first)[2], const int (&end)[2], bool masked) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(page));
    float scores[kBlocks][4];
    multiply_keys<kBlocks>(address, place, scores);
    if constexpr (kKey == KvElem::int8) scale_scores<kBlocks>(page + Image::kKeyScales, place, scores);
    if (soft_cap_ > 0.0f) cap<kBlocks>(scores);
    if (masked) mask<kBlocks>(place, first, end, scores);
    weigh<kBlocks>(scores);
    if constexpr (kValue == KvElem::int8) scale_weights<kBlocks>(page, place, scores);
    multiply_values<kBlocks>(address + Image::kValueBlock, place, scores);
  }

  // Makes weight[] those of whole rows and maximum[] powers of two.
  __device__ void reduce() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
      weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
      maximum[row] *= to_bits(row);
    }
  }

 private:
  __device__ static uint2 load_query(const __nv_bfloat16* row, int step, int width) {
    const int c = threadIdx.x % 4;
    if (row == nullptr || 16 * step >= width) return make_uint2(0, 0);
    if constexpr (kKeyInBytes) return *reinterpret_cast<const uint2*>(row + 16 * step + 4 * c);
    return make_uint2(*reinterpret_cast<const std::uint32_t*>(row + 16 * step + 2 * c),
                      *reinterpret_cast<const std::uint32_t*>(row + 16 * step + 2 * c + 8));
  }

  // To float16, the largest number of a row brought near 2^14.
  __device__ void scale_query(std::uint32_t (&query)[kSteps][4]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      std::uint32_t most = 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t two = query[step][row + 2 * half];
          most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
        }
      most = max(most, __shfl_xor_sync(~0u, most, 1));
      most = max(most, __shfl_xor_sync(~0u, most, 2));
      const int exponent = min(254 - 1, max(1, 268 - static_cast<int>(most >> 23)));
      const float factor = __int_as_float(exponent << 23);
      factor_[row] = __int_as_float((254 - exponent) << 23);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t& two = query[step][row + 2 * half];
          two = packed<Operand::f16>(__uint_as_float(two << 16) * factor, __uint_as_float(two & 0xFFFF0000u) * factor);
        }
    }
  }

  __device__ void get_query(int step, std::uint32_t (&query)[4]) const {
    if constexpr (kQueryShared) {
      const uint4 four = shared_query_[32 * step];
      query[0] = four.x, query[1] = four.y, query[2] = four.z, query[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) query[i] = query_[step][i];
    }
  }

  template <int kBlocks>
  __device__ void multiply_keys(std::uint32_t page, int place, float (&scores)[kBlocks][4]) {
    constexpr int kRow = Image::kKeyRow;
    constexpr int kChunk = kRow < 128 ? kRow : 128;
    constexpr int kStepsAPart = kKeyInBytes ? 4 : 2;  // a part is 64 bytes of a row
    const int lane = threadIdx.x % 32, r = lane % 8;
    const int piece = (lane / 8) ^ (kChunk == 128 ? r : (r >> 1) & 3);
    const std::uint32_t from = page + (place + r) * kChunk + (piece << 4);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
    for (int part = 0; part < kRow / 64; ++part) {
      const std::uint32_t at =
          (from ^ (kChunk == 128 ? (part & 1) << 6 : 0)) + part * 64 / kChunk * kPageTokens * kChunk;
      std::uint32_t query[kStepsAPart][4];
#pragma unroll
      for (int i = 0; i < kStepsAPart; ++i) get_query(kStepsAPart * part + i, query[i]);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        std::uint32_t k[4];
        load_matrices(k, at + n * 8 * kChunk);
        if constexpr (!kKeyInBytes) {
          multiply_add<kKeyOperand>(scores[n], query[0], k[0], k[1]);
          multiply_add<kKeyOperand>(scores[n], query[1], k[2], k[3]);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            std::uint32_t low, high;
            unpack<kKey>(k[i], low, high);
            multiply_add<kKeyOperand>(scores[n], query[i], low, high);
          }
        }
      }
    }
  }

  template <int kBlocks>
  __device__ static void scale_scores(const std::byte* scales, int place, float (&scores)[kBlocks][4]) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float2 of_token = two_scales<kUnpacked>(scales, place + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] *= i % 2 == 0 ? of_token.x : of_token.y;
    }
  }

  template <int kBlocks>
  __device__ void cap(float (&scores)[kBlocks][4]) const {
    const float inverse[2] = {factor_[0] / soft_cap_, factor_[1] / soft_cap_};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = soft_cap_ * kLog2e * tanhf(scores[n][i] * inverse[i / 2]);
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

  // What a row's products are multiplied with to become powers of two.
  __device__ float to_bits(int row) const { return soft_cap_ > 0.0f ? 1.0f : factor_[row]; }

  // Products become weights under the running maximum.
  template <int kBlocks>
  __device__ void weigh(float (&scores)[kBlocks][4]) {
    float most[2] = {maximum[0], maximum[1]};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
    float change[2], bits[2], shift[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      most[row] = fmaxf(most[row], __shfl_xor_sync(~0u, most[row], 1));
      most[row] = fmaxf(most[row], __shfl_xor_sync(~0u, most[row], 2));
      bits[row] = to_bits(row);
      const float base = most[row] == minus_infinity() ? 0.0f : most[row] * bits[row];  // nothing seen yet
      change[row] = maximum[row] == most[row] ? 1.0f : power_of_two(maximum[row] * bits[row] - base);
      shift[row] = kWeightBits - base;
      maximum[row] = most[row];
      weight[row] *= change[row];
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = power_of_two(fmaf(scores[n][i], bits[i / 2], shift[i / 2]));
        weight[i / 2] += scores[n][i];
      }
    if (!__any_sync(~0u, change[0] != 1.0f || change[1] != 1.0f)) return;
#pragma unroll
    for (auto& sum : sums) {
      sum[0] *= change[0];
      sum[1] *= change[0];
      sum[2] *= change[1];
      sum[3] *= change[1];
    }
  }

  template <int kBlocks>
  __device__ void scale_weights(const std::byte* page, int place, float (&weights)[kBlocks][4]) {
    const std::byte* scales = page + Image::kValueScales;
    const int token = place + threadIdx.x % 4 * 2;
    float inverse = 1.0f;
    if constexpr (kUnpacked) {
      raise_unit(*reinterpret_cast<const float*>(page + Image::kUnit));
    } else {
      static_assert(kBlocks <= 4);
      const int at = place + threadIdx.x % (4 * kBlocks) * 2;  // two tokens a lane
      const float2 of_token = two_scales<false>(scales, at);
      raise_unit(unit_below(__reduce_max_sync(~0u, __float_as_uint(fmaxf(of_token.x, of_token.y)))));
      inverse = inverse_of_unit(unit);
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float2 of_token = two_scales<kUnpacked>(scales, token + 8 * n);
      const float left = kUnpacked ? of_token.x : of_token.x * inverse;
      const float right = kUnpacked ? of_token.y : of_token.y * inverse;
      weights[n][0] *= left;
      weights[n][1] *= right;
      weights[n][2] *= left;
      weights[n][3] *= right;
    }
  }

  // The unit is the power of two below the largest scale so far; all lanes have the same.
  __device__ void raise_unit(float larger) {
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
      } else if constexpr (kUnpacked) {
        multiply_halves(block, place + 8 * n, a);
      } else {
        multiply_bytes(block, place + 8 * n, a);
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

  // 16 tokens of unpacked V, number after number.
  __device__ void multiply_halves(std::uint32_t block, int place, const std::uint32_t (&a)[4]) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const std::uint32_t from = block + (8 * (m >> 1) + r) * 128 + (((place / 8 + (m & 1)) ^ r) << 4);
#pragma unroll
    for (int d = 0; d < kWidth / 16; ++d) {
      std::uint32_t v[4];
      load_matrices(v, from + d * 16 * 128);
      multiply_add<kValueOperand>(sums[2 * d], a, v[0], v[1]);
      multiply_add<kValueOperand>(sums[2 * d + 1], a, v[2], v[3]);
    }
  }

  // 16 tokens of V in 8 bits, number after number.
  __device__ void multiply_bytes(std::uint32_t block, int place, const std::uint32_t (&a)[4]) {
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

  std::uint32_t query_[kQueryShared ? 1 : kSteps][4];
  uint4* shared_query_ = nullptr;
  float factor_[2];  // of products of this lane's rows
  float soft_cap_;
};

}  // namespace octavo::cuda::portable
