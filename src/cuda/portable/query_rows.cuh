// QueryRows: the query rows of one warp, kTiles of 16, and their products with K as a page's image in shared memory has
// it. For K in 8 bits a lane's four neighbouring bytes are taken as the four numbers that the product wants of it;
// queries are loaded in that order, so nothing is shuffled. Beside 8 bits they are scaled by a power of two a row,
// which keeps small numbers from rounding to zero. Queries of wide heads lie in shared memory, as fragments, for want
// of registers.
#pragma once

#include "cuda/portable/page_image.cuh"

namespace octavo::cuda::portable {

// Two tokens' scales, side by side.
__device__ inline float2 two_scales(const std::byte* scales, int token) {
  const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(scales + 2 * token);
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000u));
}

// Four numbers of a row that a lane's products of a step want: neighbours beside K in 8 bits, else two and two.
template <bool kInBytes>
__device__ uint2 query_numbers(const __nv_bfloat16* step) {
  const int c = threadIdx.x % 4;
  if constexpr (kInBytes) return *reinterpret_cast<const uint2*>(step + 4 * c);
  return make_uint2(*reinterpret_cast<const std::uint32_t*>(step + 2 * c),
                    *reinterpret_cast<const std::uint32_t*>(step + 2 * c + 8));
}

// By a power of two a row, the largest number of the four lanes brought near 2^kBits and rounded. of_row: what that
// multiplied products with, inverted.
template <Operand kTo, int kBits, int kSteps>
__device__ void scale_query(std::uint32_t (&query)[kSteps][4], float (&of_row)[2]) {
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
        two = packed<kTo>(__uint_as_float(two << 16) * factor, __uint_as_float(two & 0xFFFF0000u) * factor);
      }
  }
}

template <class Image, int kWidth, KvElem kKey, int kTiles, bool kShared>
class QueryRows {
 public:
  static constexpr bool kKeyInBytes = is_8bit(kKey);
  static constexpr bool kKeyAsCodes = kKey == KvElem::int8 && kTiles > 1;  // fewer rows are not worth two products
  static constexpr Operand kKeyOperand = kKey == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr int kSteps = kWidth / 16;
  static constexpr int kBytes = kShared ? kTiles * kSteps * 32 * 16 : 0;

  // row_of(tile, i): this lane's two of a tile, of `width` numbers; null reads as zeros. shared: kBytes for `sharers`
  // warps that have the same rows; a barrier stands before the first multiply().
  template <class RowOf>
  __device__ void start(const RowOf& row_of, int width, float scale, std::byte* shared, int sharers) {
    if constexpr (kShared) shared_query_ = reinterpret_cast<uint4*>(shared) + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const __nv_bfloat16* const rows[2] = {row_of(tile, 0), row_of(tile, 1)};
      std::uint32_t query[kSteps][4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const bool there = rows[row] != nullptr && 16 * step < width;
          const uint2 four = there ? query_numbers<kKeyInBytes>(rows[row] + 16 * step) : make_uint2(0, 0);
          query[step][row] = four.x;
          query[step][row + 2] = four.y;
        }
      float(&factor)[2] = factor_[tile];
      factor[0] = factor[1] = 1.0f;
      if constexpr (kKeyAsCodes) {  // left as they are, in bfloat16
        scale_query<Operand::bf16, 6>(query, factor);
        halve_query(query);
      } else if constexpr (kKeyInBytes) {
        scale_query<Operand::f16, 14>(query, factor);
      }
      for (float& x : factor) x = fmaxf(x * scale, 1e-37f);  // a mask of minus infinity stays one
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if constexpr (kShared) {
          if (sharers == 1 || step % sharers == static_cast<int>(threadIdx.x) / 32)
            shared_query_[32 * (tile * kSteps + step)] =
                make_uint4(query[step][0], query[step][1], query[step][2], query[step][3]);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) query_[tile][step][i] = query[step][i];
        }
      }
    }
  }

  // With the tokens [place, place + 8 * kBlocks) of the page, their scales included.
  template <int kBlocks>
  __device__ void multiply(const std::byte* page, std::uint32_t address, int place,
                           float (&scores)[kTiles][kBlocks][4]) {
    if constexpr (kKeyAsCodes) {
      multiply_codes<kBlocks>(address, page + Image::kKeyScales, place, scores);
    } else {
      multiply_keys<kBlocks>(address, place, scores);
      if constexpr (kKey == KvElem::int8) scale_scores<kBlocks>(page + Image::kKeyScales, place, scores);
    }
  }

  // What a row's products are multiplied with to become scores.
  __device__ float factor(int tile, int row) const { return factor_[tile][row]; }

 private:
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
    if constexpr (kShared) {
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

  std::uint32_t query_[kShared ? 1 : kTiles][kSteps][4];
  uint4* shared_query_ = nullptr;
  float factor_[kTiles][2];
};

}  // namespace octavo::cuda::portable
