// WarpRows: the 16 query rows of one warp on their way over the cache. Scores of a piece of a page, the running
// softmax, and the weighted sum of V, all in registers; K and V are read from a page's image in shared memory.
//
// A lane (g = lane / 4, c = lane % 4) holds of rows g and g + 8: of scores the tokens 8 n + 2 c, + 1, of sums the
// numbers 8 n + 2 c, + 1. For K in 8 bits a lane's four neighbouring bytes are taken as the four numbers that the
// product wants of it; queries are loaded in that order, so nothing is shuffled. Weights that enter a float16 product
// are 2^14 times larger, queries are scaled by a power of two a row: both keep small numbers from rounding to zero and
// cancel. Queries of wide heads lie in shared memory, as fragments, for want of registers.
#pragma once

#include "cuda/portable/page_image.cuh"

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

// Two tokens' scales, side by side.
__device__ inline float2 two_scales(const std::byte* scales, int token) {
  const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(scales + 2 * token);
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000u));
}

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
  static constexpr bool kKeyInBytes = is_8bit(kKey);
  static constexpr bool kKeyAsCodes = kKey == KvElem::int8 && kTiles > 1;  // fewer rows are not worth two products
  static constexpr Operand kKeyOperand = kKey == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;
  static constexpr int kSteps = kWidth / 16;
  static constexpr int kQueryBytes = kQueryShared ? kTiles * kSteps * 32 * 16 : 0;

  float sums[kTiles][kWidth / 8][4];
  float maximum[kTiles][2];  // of products until reduce() was called
  float weight[kTiles][4];   // sums of weights, as of a number of V that is one: two of each row
  float unit = 1.0f;  // what sums are counted in: int8 has scales a token, of which only ratios enter a float16 product

  // row_of(tile, i): this lane's two of a tile, of `width` numbers; null reads as zeros. shared_query: kQueryBytes for
  // `sharers` warps that have the same rows; a barrier stands before the first take().
  template <class RowOf>
  __device__ void start(const RowOf& row_of, int width, const ScoreRule& rule, std::byte* shared_query, int sharers) {
    soft_cap_ = rule.soft_cap;
    if constexpr (kQueryShared) shared_query_ = reinterpret_cast<uint4*>(shared_query) + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const __nv_bfloat16* const rows[2] = {row_of(tile, 0), row_of(tile, 1)};
      std::uint32_t query[kSteps][4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const uint2 four = load_query(rows[row], step, width);
          query[step][row] = four.x;
          query[step][row + 2] = four.y;
        }
      float(&factor)[2] = factor_[tile];
      factor[0] = factor[1] = 1.0f;
      if constexpr (kKeyOperand == Operand::f16) scale_query(query, factor);
      if constexpr (kKeyAsCodes) halve_query(query);
      for (float& x : factor) x = fmaxf(x * rule.scale, 1e-37f);  // a mask of minus infinity stays one
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if constexpr (kQueryShared) {
          if (sharers == 1 || step % sharers == static_cast<int>(threadIdx.x) / 32)
            shared_query_[32 * (tile * kSteps + step)] =
                make_uint4(query[step][0], query[step][1], query[step][2], query[step][3]);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) query_[tile][step][i] = query[step][i];
        }
      }
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
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(page));
    float scores[kTiles][kBlocks][4];
    if constexpr (kKeyAsCodes) {
      multiply_codes<kBlocks>(address, page + Image::kKeyScales, place, scores);
    } else {
      multiply_keys<kBlocks>(address, place, scores);
      if constexpr (kKey == KvElem::int8) scale_scores<kBlocks>(page + Image::kKeyScales, place, scores);
    }
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
  __device__ static uint2 load_query(const __nv_bfloat16* row, int step, int width) {
    const int c = threadIdx.x % 4;
    if (row == nullptr || 16 * step >= width) return make_uint2(0, 0);
    if constexpr (kKeyInBytes) return *reinterpret_cast<const uint2*>(row + 16 * step + 4 * c);
    return make_uint2(*reinterpret_cast<const std::uint32_t*>(row + 16 * step + 2 * c),
                      *reinterpret_cast<const std::uint32_t*>(row + 16 * step + 2 * c + 8));
  }

  // By a power of two a row, the largest number brought near 2^14 and rounded to float16: or, beside codes of int8,
  // near 2^6 and left as it is.
  __device__ static void scale_query(std::uint32_t (&query)[kSteps][4], float (&of_row)[2]) {
    constexpr int kBits = kKeyAsCodes ? 6 : 14;
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
      const int exponent = min(254 - 1, max(1, 254 + kBits - static_cast<int>(most >> 23)));
      const float factor = __int_as_float(exponent << 23);
      of_row[row] = __int_as_float((254 - exponent) << 23);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t& two = query[step][row + 2 * half];
          const float low = __uint_as_float(two << 16) * factor, high = __uint_as_float(two & 0xFFFF0000u) * factor;
          two = packed < kKeyAsCodes ? Operand::bf16 : Operand::f16 > (low, high);
        }
    }
  }

  // Numbers below 128 become a whole part and 256ths of what is left, both of 8 bits: of a pair of steps the first has
  // the whole parts then, as an operand of 32 numbers, and the second the rest.
  __device__ static void halve_query(std::uint32_t (&query)[kSteps][4]) {
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      std::uint32_t whole[4], rest[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t two[2] = {query[step + i / 2][i % 2], query[step + i / 2][i % 2 + 2]};
        whole[i] = rest[i] = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float x = __uint_as_float(n % 2 == 0 ? two[n / 2] << 16 : two[n / 2] & 0xFFFF0000u);
          const int near = min(127, __float2int_rd(x + 0.5f));
          const int left = min(127, __float2int_rn((x - static_cast<float>(near)) * 256.0f));
          whole[i] |= (static_cast<std::uint32_t>(near) & 0xFF) << 8 * n;
          rest[i] |= (static_cast<std::uint32_t>(left) & 0xFF) << 8 * n;
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        query[step][i] = whole[i];
        query[step + 1][i] = rest[i];
      }
    }
  }

  __device__ void get_query(int tile, int step, std::uint32_t (&query)[4]) const {
    if constexpr (kQueryShared) {
      const uint4 four = shared_query_[32 * (tile * kSteps + step)];
      query[0] = four.x, query[1] = four.y, query[2] = four.z, query[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) query[i] = query_[tile][step][i];
    }
  }

  // Where a lane finds its piece of a row of K, in the part of 64 bytes of a page's rows: of 8 tokens from a place on.
  __device__ static std::uint32_t keys_at(std::uint32_t page, int place, int part) {
    constexpr int kChunk = Image::kKeyRow < 128 ? Image::kKeyRow : 128;
    const int lane = threadIdx.x % 32, r = lane % 8;
    const int piece = (lane / 8) ^ (kChunk == 128 ? r : (r >> 1) & 3);
    return ((page + (place + r) * kChunk + (piece << 4)) ^ (kChunk == 128 ? (part & 1) << 6 : 0)) +
           part * 64 / kChunk * kPageTokens * kChunk;
  }

  template <int kBlocks>
  __device__ void multiply_keys(std::uint32_t page, int place, float (&scores)[kTiles][kBlocks][4]) {
    constexpr int kRow = Image::kKeyRow;
    constexpr int kChunk = kRow < 128 ? kRow : 128;
    constexpr int kStepsAPart = kKeyInBytes ? 4 : 2;  // a part is 64 bytes of a row
#pragma unroll
    for (auto& tile : scores)
#pragma unroll
      for (auto& block : tile) block[0] = block[1] = block[2] = block[3] = 0.0f;
#pragma unroll
    for (int part = 0; part < kRow / 64; ++part) {
      const std::uint32_t at = keys_at(page, place, part);
      std::uint32_t query[kTiles][kStepsAPart][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < kStepsAPart; ++i) get_query(tile, kStepsAPart * part + i, query[tile][i]);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        std::uint32_t k[4];
        load_matrices(k, at + n * 8 * kChunk);
#pragma unroll
        for (int i = 0; i < kStepsAPart; ++i) {
          std::uint32_t low, high;
          if constexpr (kKeyInBytes) {
            unpack<kKey>(k[i], low, high);
          } else {
            low = k[2 * i], high = k[2 * i + 1];
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
            multiply_add<kKeyOperand>(scores[tile][n], query[tile][i], low, high);
        }
      }
    }
  }

  template <int kBlocks>
  __device__ static void scale_scores(const std::byte* scales, int place, float (&scores)[kTiles][kBlocks][4]) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float2 of_token = two_scales(scales, place + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[tile][n][i] *= i % 2 == 0 ? of_token.x : of_token.y;
    }
  }

  // Codes of int8 as they are, with both parts of the queries. Sums are counted from 1.5 * 2^23 on, so that their bits
  // are those of floats; what that adds to the whole, and to the 256ths, goes where a token's scale comes in, exactly.
  template <int kBlocks>
  __device__ void multiply_codes(std::uint32_t page, const std::byte* scales, int place,
                                 float (&scores)[kTiles][kBlocks][4]) {
    constexpr int kChunk = kWidth < 128 ? kWidth : 128;
    constexpr int kStart = 0x4B400000;
    constexpr float kAdded = 0x1.8p23f + 0x1.8p15f;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      int whole[kTiles][4], rest[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) whole[tile][i] = rest[tile][i] = kStart;
#pragma unroll
      for (int part = 0; part < kWidth / 64; ++part) {
        std::uint32_t k[4];
        load_matrices(k, keys_at(page, place, part) + n * 8 * kChunk);
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            std::uint32_t query[4];
            get_query(tile, 4 * part + 2 * i, query);
            multiply_add_codes(whole[tile], query, k[2 * i], k[2 * i + 1]);
            get_query(tile, 4 * part + 2 * i + 1, query);
            multiply_add_codes(rest[tile], query, k[2 * i], k[2 * i + 1]);
          }
      }
      const float2 of_token = two_scales(scales, place + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scale = i % 2 == 0 ? of_token.x : of_token.y;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
          scores[tile][n][i] = fmaf(__int_as_float(rest[tile][i]), scale * 0x1p-8f,
                                    fmaf(__int_as_float(whole[tile][i]), scale, scale * -kAdded));
      }
    }
  }

  template <int kBlocks>
  __device__ void cap(int tile, float (&scores)[kBlocks][4]) const {
    const float inverse[2] = {factor_[tile][0] / soft_cap_, factor_[tile][1] / soft_cap_};
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
  __device__ float to_bits(int tile, int row) const { return soft_cap_ > 0.0f ? 1.0f : factor_[tile][row]; }

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

  std::uint32_t query_[kQueryShared ? 1 : kTiles][kSteps][4];
  uint4* shared_query_ = nullptr;
  float factor_[kTiles][2];  // of products of this lane's rows
  float soft_cap_;
};

}  // namespace octavo::cuda::portable
