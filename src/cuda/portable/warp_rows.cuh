// WarpRows: the 16 query rows of one warp on their way over the cache. Scores of a piece of a page, the running
// softmax, and the weighted sum of V, all in registers; K and V are read from a page's image in shared memory.
//
// A lane (g = lane / 4, c = lane % 4) holds of rows g and g + 8: of scores the tokens 8 n + 2 c, + 1, of sums the
// numbers 8 n + 2 c, + 1. Weights that enter a float16 product are 2^14 times larger, which keeps small numbers from
// rounding to zero and cancels.
#pragma once

#include "cuda/portable/query_rows.cuh"
#include "cuda/shared_address.cuh"

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

// The power of two below a scale, in whose multiples sums are counted.
__device__ inline float unit_below(std::uint32_t scale_bits) {
  return __uint_as_float(min(scale_bits & 0x7F800000u, 0x7E000000u));
}
__device__ inline float inverse_of_unit(float unit) { return __uint_as_float((254u << 23) - __float_as_uint(unit)); }

// kTiles of 16 rows share each number of K and V that is read and unpacked. kQueryShared: queries lie in shared memory.
template <int kWidth, KvElem kKey, KvElem kValue, int kTiles, bool kQueryShared>
class WarpRows {
 public:
  using Image = PageImage<kWidth, kKey, kValue>;
  using Queries = QueryRows<Image, kWidth, kKey, kTiles, kQueryShared>;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;
  static constexpr int kQueryBytes = Queries::kBytes;

  float sums[kTiles][kWidth / 8][4];
  float maximum[kTiles][2];  // of products until reduce() was called
  float weight[kTiles][4];   // sums of weights, as of a number of V that is one: two of each row
  float unit = 1.0f;  // what sums are counted in: int8 has scales a token, of which only ratios enter a float16 product

  // As QueryRows::start().
  template <class RowOf>
  __device__ void start(const RowOf& row_of, int width, const ScoreRule& rule, std::byte* shared_query, int sharers) {
    soft_cap_ = rule.soft_cap;
    queries_.start(row_of, width, rule.scale, shared_query, sharers);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (auto& sum : sums[tile]) sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
      maximum[tile][0] = maximum[tile][1] = minus_infinity();
      weight[tile][0] = weight[tile][1] = weight[tile][2] = weight[tile][3] = 0.0f;
    }
    if constexpr (kValue == KvElem::int8) unit = 0x1p-100f;
  }

  // Tokens [place, place + 8 * kBlocks) of the page at `page`; a lane's rows see the page's places [first, end), which
  // seen(tile, i) tells as an int2.
  template <int kBlocks, class Seen>
  __device__ void take(const std::byte* page, int place, bool masked, const Seen& seen) {
    const std::uint32_t address = shared_address(page);
    float scores[kTiles][kBlocks][4];
    queries_.template multiply<kBlocks>(page, address, place, scores);
    if (masked || soft_cap_ > 0.0f) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (soft_cap_ > 0.0f) cap<kBlocks>(tile, scores[tile]);
        if (masked) mask<kBlocks>(place, {seen(tile, 0), seen(tile, 1)}, scores[tile]);
      }
    }
    float raised = 1.0f;
    if constexpr (kValue == KvElem::int8) raised = raise_unit<kBlocks>(page, place);
    weigh<kBlocks>(scores, raised);
    multiply_values<kBlocks>(page, address, place, scores);
  }

  // Makes maximum[] powers of two.
  __device__ void reduce() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int row = 0; row < 2; ++row) maximum[tile][row] *= to_bits(tile, row);
  }

 private:
  template <int kBlocks>
  __device__ void cap(int tile, float (&scores)[kBlocks][4]) const {
    const float inverse[2] = {queries_.factor(tile, 0) / soft_cap_, queries_.factor(tile, 1) / soft_cap_};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = soft_cap_ * kLog2e * tanhf(scores[n][i] * inverse[i / 2]);
  }

  template <int kBlocks>
  __device__ static void mask(int place, const int2 (&seen)[2], float (&scores)[kBlocks][4]) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = place + 8 * n + threadIdx.x % 4 * 2 + i % 2;
        if (token < seen[i / 2].x || token >= seen[i / 2].y) scores[n][i] = minus_infinity();
      }
  }

  // What a row's products are multiplied with to become powers of two.
  __device__ float to_bits(int tile, int row) const { return soft_cap_ > 0.0f ? 1.0f : queries_.factor(tile, row); }

  // Products become weights under the running maximum. raised: what sums are multiplied with beside. All that follows
  // the one branch is free of others, so that weights are worked out while products of others are.
  template <int kBlocks>
  __device__ void weigh(float (&scores)[kTiles][kBlocks][4], float raised) {
    float change[kTiles][2], shift[kTiles][2];
    bool changes = raised != 1.0f;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float before = maximum[tile][row];
        float most = before;
#pragma unroll
        for (int n = 0; n < kBlocks; ++n)
          most = fmaxf(most, fmaxf(scores[tile][n][2 * row], scores[tile][n][2 * row + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float bits = to_bits(tile, row);
        const float base = most == minus_infinity() ? 0.0f : most * bits;  // nothing seen yet
        change[tile][row] = before == most ? 1.0f : power_of_two(before * bits - base);
        shift[tile][row] = kWeightBits - base;
        changes = changes || before != most;
        maximum[tile][row] = most;
      }
    if (__any_sync(~0u, changes)) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const float factor[2] = {change[tile][0] * raised, change[tile][1] * raised};
#pragma unroll
        for (int i = 0; i < 4; ++i) weight[tile][i] *= change[tile][i / 2];
#pragma unroll
        for (auto& sum : sums[tile])
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[i] *= factor[i / 2];
      }
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& x = scores[tile][n][i];
          x = power_of_two(fmaf(x, to_bits(tile, i / 2), shift[tile][i / 2]));
        }
  }

  // The unit is the power of two below the largest scale so far; all lanes have the same. What sums change by.
  template <int kBlocks>
  __device__ float raise_unit(const std::byte* page, int place) {
    const float before = unit;
    const float2 two = two_scales(page + Image::kValueScales, place + threadIdx.x % (4 * kBlocks) * 2);
    unit = fmaxf(unit, unit_below(__reduce_max_sync(~0u, __float_as_uint(fmaxf(two.x, two.y)))));
    return before * inverse_of_unit(unit);
  }

  // Two tokens' scales of V, in units.
  __device__ std::uint32_t value_scales(const std::byte* page, int token) const {
    const float2 two = two_scales(page + Image::kValueScales, token);
    const float inverse = inverse_of_unit(unit);
    return packed<Operand::f16>(two.x * inverse, two.y * inverse);
  }

  template <int kBlocks>
  __device__ void multiply_values(const std::byte* page, std::uint32_t address, int place,
                                  const float (&weights)[kTiles][kBlocks][4]) {
    constexpr std::uint32_t kOnes = kValueOperand == Operand::f16 ? 0x3C003C00u : 0x3F803F80u;
    const std::uint32_t block = address + Image::kValueBlock;
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&four)[4] = weights[tile][n + i / 2];
          a[tile][i] = packed<kValueOperand>(four[2 * (i % 2)], four[2 * (i % 2) + 1]);
        }
        multiply_add<kValueOperand>(weight[tile], a[tile], kOnes, kOnes);
      }
      if constexpr (kValue == KvElem::int8) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t scales = value_scales(page, place + 8 * (n + half) + threadIdx.x % 4 * 2);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int row = 0; row < 2; ++row)
              a[tile][2 * half + row] = multiply_halves(a[tile][2 * half + row], scales);
        }
      }
      if constexpr (kValue == KvElem::bf16) {
        multiply_rows(block, place + 8 * n, a);
      } else {
        multiply_bytes(block, place + 8 * n, a);
      }
    }
  }

  // 8 numbers of 16 tokens of V, to all tiles.
  __device__ void add_values(int at, const std::uint32_t (&a)[kTiles][4], std::uint32_t low, std::uint32_t high) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) multiply_add<kValueOperand>(sums[tile][at], a[tile], low, high);
  }

  // 16 tokens of V in bfloat16, token after token.
  __device__ void multiply_rows(std::uint32_t block, int place, const std::uint32_t (&a)[kTiles][4]) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const std::uint32_t from = block + (place + 8 * (m & 1) + r) * 128;
#pragma unroll
    for (int d = 0; d < kWidth / 16; ++d) {
      std::uint32_t v[4];
      load_transposed(v, from + (((2 * (d % 4) + (m >> 1)) ^ r) << 4) + d / 4 * kPageTokens * 128);
      add_values(2 * d, a, v[0], v[1]);
      add_values(2 * d + 1, a, v[2], v[3]);
    }
  }

  // 16 tokens of V in 8 bits, number after number.
  __device__ void multiply_bytes(std::uint32_t block, int place, const std::uint32_t (&a)[kTiles][4]) {
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
        add_values(4 * d + i, a, low, high);
      }
    }
  }

  Queries queries_;
  float soft_cap_;
};

}  // namespace octavo::cuda::portable
