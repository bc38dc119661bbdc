// The 64 rows of a prefill in one warpgroup: S, P and O in registers, from tiles of pages in shared memory.
//
// In e4m3 the product P V of a tile starts from zero and joins O in float32 by one FMA a number, O = O * change + T, in
// place of rescaling O: sums in the tensor core keep few bits, and a chain of products over the whole context would be
// wrong by percents. Sums of P come from the tensor core too, of P as it was rounded.
#pragma once

#include "cuda/portable/decode.cuh"
#include "cuda/sm90/operands.cuh"
#include "cuda/sm90/prefill_shape.h"
#include "cuda/sm90/wgmma.cuh"

namespace octavo::cuda::sm90 {

using portable::minus_infinity;
using portable::power_of_two;

// Below every score, and finite: a row that has seen nothing yet changes by factors of one.
constexpr float kNothingSeen = -1e30f;

// The 64 rows of one warpgroup. A lane (g = lane / 4, c = lane % 4) of warp w holds of rows 16 w + g and + 8 the
// numbers 8 j + 2 c and + 1 of S and O.
template <class Shape>
class PrefillSums {
 public:
  static constexpr int kScores = Shape::kTokens / 2;
  static constexpr int kChainSums = Shape::kChain / 2;
  static constexpr int kSteps = Shape::kTokens * Shape::kElemBytes / 32;  // of the product P V
  float sums[Shape::kChains][kChainSums];
  float maximum[2];  // of products
  float weight[2];   // of this lane's columns where the tensor core does not sum: whole_weight() is of all

  __device__ void start(const PrefillRow& first, const PrefillRow& second) {
    scale_[0] = first.scale;
    scale_[1] = second.scale;
    maximum[0] = maximum[1] = kNothingSeen;
    weight[0] = weight[1] = 0.0f;
#pragma unroll
    for (auto& chain : sums)
#pragma unroll
      for (float& sum : chain) sum = 0.0f;
  }

  // S of a tile of keys, begun; it is there when finish_keys() returns, which leaves kLeft groups begun later.
  __device__ void begin_keys(std::uint64_t queries, std::uint32_t keys) {
    const std::uint64_t tile = operand(keys, Shape::kChunk);
    begin_products();
#pragma unroll
    for (int step = 0; step < Shape::kQueryParts * Shape::kRowBytes / 32; ++step) {
      const int part = step * 32 / Shape::kRowBytes, at = step * 32 % Shape::kRowBytes;
      const int chunk = at / Shape::kChunk, in_chunk = at % Shape::kChunk;
      const std::uint64_t a = advanced(queries, part * Shape::kQueryPartBytes + chunk * 64 * Shape::kChunk + in_chunk);
      const std::uint64_t b = advanced(tile, chunk * Shape::kTokens * Shape::kChunk + in_chunk);
      if constexpr (Shape::kIntegerKeys) {
        multiply_int8(products_, a, b, step > 0);
      } else if constexpr (Shape::kEightBit) {
        multiply_e4m3(scores_, a, b, step > 0);
      } else {
        multiply_bf16(scores_, a, b, step > 0);
      }
    }
    end_group();
  }
  template <int kLeft>
  __device__ void finish_keys() {
    wait_groups<kLeft>();
    if constexpr (Shape::kIntegerKeys) {
      hold(products_);
    } else {
      hold(scores_);
    }
  }

  // Integer products become scores: the bits of 1.5 * 2^23 and a whole number below 2^22 added are those of their sum,
  // and one FMA takes 1.5 * 2^23 away again and multiplies with the token's scale.
  __device__ void scale_keys(std::uint32_t scales) {
    static_assert(Shape::kWidth * 127 * 127 < 1 << 22);
    constexpr std::int32_t kBits = 0x4B400000;
    constexpr float kBias = 12582912.0f;
    const std::uint32_t from = scales + threadIdx.x % 4 * 4;
#pragma unroll
    for (int n = 0; n < kScores / 4; ++n) {
      std::uint32_t two;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(two) : "r"(from + 16 * n) : "memory");
      const float scale[2] = {low_bf16(two), high_bf16(two)};
      const float bias[2] = {-kBias * scale[0], -kBias * scale[1]};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scores_[4 * n + i] = fmaf(__int_as_float(products_[4 * n + i] + kBits), scale[i % 2], bias[i % 2]);
    }
  }

  // The lane's rows see the columns [first, end) of the tile.
  __device__ void mask(const int (&first)[2], const int (&end)[2]) {
    const int c = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < kScores; ++k) {
      const int column = k / 4 * 8 + 2 * c + k % 2, row = k / 2 % 2;
      if (column < first[row] || column >= end[row]) scores_[k] = minus_infinity();
    }
  }

  // S becomes P, in float32; in 8 bits also as the product takes it.
  __device__ void weigh() {
    float most[2][2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      most[row][0] = scores_[2 * row];
      most[row][1] = scores_[2 * row + 1];
    }
#pragma unroll
    for (int k = 4; k < kScores; ++k) most[k / 2 % 2][k % 2] = fmaxf(most[k / 2 % 2][k % 2], scores_[k]);
    float shift[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float of_row = fmaxf(most[row][0], most[row][1]);
      of_row = fmaxf(of_row, __shfl_xor_sync(~0u, of_row, 1));
      of_row = fmaxf(of_row, __shfl_xor_sync(~0u, of_row, 2));
      of_row = fmaxf(of_row, maximum[row]);
      change_[row] = power_of_two((maximum[row] - of_row) * scale_[row]);
      maximum[row] = of_row;
      shift[row] = Shape::kWeightBits - of_row * scale_[row];
    }
    float of_tile[2][2] = {};
    constexpr int kPerStep = kScores / kSteps;  // as many as a step of the product takes: rounded while the next come
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int k = step * kPerStep; k < (step + 1) * kPerStep; ++k) {
        const int row = k / 2 % 2;
        const float x = fmaf(scores_[k], scale_[row], shift[row]);
        scores_[k] = by_fma(k) ? power_of_two_by_fma(x) : power_of_two(x);
        if constexpr (!Shape::kEightBit) of_tile[row][k % 2] += scores_[k];
      }
      if constexpr (Shape::kEightBit) pack(step);
    }
    if constexpr (!Shape::kEightBit) {
#pragma unroll
      for (int row = 0; row < 2; ++row)
        weight[row] = fmaf(weight[row], change_[row], of_tile[row][0] + of_tile[row][1]);
    }
  }

  // 8 bits: sums of the tile alone join O. Two chains of products alternate: one joins under the next.
  __device__ void multiply_values(std::uint32_t values, std::uint32_t ones) {
    float products[Shape::kChains > 1 ? 2 : 1][Shape::kProductRegisters];
    float of_ones[4];
    begin_products();
    begin_chain(products[0], values, 0);
    if constexpr (Shape::kOnesApart) {
      const std::uint64_t b = operand(ones, kPageTokens);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) multiply_e4m3(of_ones, weights_ + 4 * step, b, step > 0);
    }
    end_group();
#pragma unroll
    for (int i = 0; i < Shape::kChains; ++i) {
      if (i + 1 < Shape::kChains) {
        if (i > 0) begin_products();  // its registers were read above
        begin_chain(products[(i + 1) % 2], values, i + 1);
        end_group();
        wait_groups<1>();
      } else {
        wait_groups<0>();
      }
      auto& done = products[i % 2];
      hold(done);
#pragma unroll
      for (int k = 0; k < kChainSums; ++k) sums[i][k] = fmaf(sums[i][k], change_[k / 2 % 2], done[k]);
      if constexpr (Shape::kOnesBehindPages) join_weights(done[kChainSums], done[kChainSums + 2]);
    }
    if constexpr (Shape::kOnesApart) {
      hold(of_ones);
      join_weights(of_ones[0], of_ones[2]);
    }
  }

  // 16 bits, in three steps around the next tile's softmax. O changes under the maximum that P has seen; the products
  // go onto it, for their sums keep as many bits as float32; P of the next tile takes the place of this one's.
  __device__ void rescale() {
#pragma unroll
    for (auto& chain : sums) {
#pragma unroll
      for (int k = 0; k < kChainSums; ++k) chain[k] *= change_[k / 2 % 2];
      hold(chain);  // all of them before the first product begins
    }
  }
  __device__ void begin_values(std::uint32_t values) {
    const std::uint64_t b = transposed_operand(values, kPageTokens * 128);
    begin_products();
#pragma unroll
    for (int i = 0; i < Shape::kChains; ++i)
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int at = step / 4 * Shape::kBlockBytes + i * Shape::kChain / 64 * kPageTokens * 128 + step % 4 * 2048;
        multiply_bf16_by_transposed(sums[i], weights_ + 4 * step, advanced(b, at), true);
      }
    end_group();
  }
  __device__ void finish_values() {
    wait_groups<0>();
#pragma unroll
    for (auto& chain : sums) hold(chain);
#pragma unroll
    for (std::uint32_t& two : weights_) asm volatile("" : "+r"(two)::"memory");
  }
  __device__ void pack_weights() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) pack(step);
  }

  // What a thread holds, to memory: numbers of a warpgroup's threads side by side.
  __device__ void put(float* to) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[128 * i] = maximum_bits(i);
      to[128 * (2 + i)] = weight[i];
    }
#pragma unroll
    for (int k = 0; k < Shape::kWidth / 2; ++k) to[128 * (4 + k)] = sums[k / kChainSums][k % kChainSums];
  }
  // The sums of pieces that were put so, one after the other.
  __device__ void join(const float* from, int parts) {
    start({1.0f, 0}, {1.0f, 0});
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int i = 0; i < 2; ++i) maximum[i] = fmaxf(maximum[i], from[part * Shape::kPieceFloats + 128 * i]);
#pragma unroll 1
    for (int part = 0; part < parts; ++part, from += Shape::kPieceFloats) {
      float factor[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        factor[i] = power_of_two(from[128 * i] - maximum[i]);
        weight[i] = fmaf(factor[i], from[128 * (2 + i)], weight[i]);
      }
#pragma unroll
      for (int k = 0; k < Shape::kWidth / 2; ++k) {
        float& sum = sums[k / kChainSums][k % kChainSums];
        sum = fmaf(factor[k / 2 % 2], from[128 * (4 + k)], sum);
      }
    }
  }

  __device__ float maximum_bits(int row) const { return maximum[row] * scale_[row]; }

 private:
  static constexpr bool by_fma(int k) {
    return Shape::kByFma > 0 && k % 4 < 2 && (k / 4 * 2 + k % 2) % (Shape::kByFma > 0 ? Shape::kByFma : 1) == 0;
  }

  // 32 bytes of P of each row, as the product takes them: the order of tokens in a page of V makes a lane's own numbers
  // those that it wants.
  __device__ void pack(int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Shape::kEightBit) {
        const int k = 16 * step + 8 * (i / 2) + 2 * (i % 2);
        weights_[4 * step + i] = to_e4m3(scores_[k], scores_[k + 1], scores_[k + 4], scores_[k + 5]);
      } else {
        weights_[4 * step + i] = to_bf16(scores_[8 * step + 2 * i], scores_[8 * step + 2 * i + 1]);
      }
    }
  }

  __device__ void begin_chain(float (&products)[Shape::kProductRegisters], std::uint32_t values, int i) {
    const std::uint64_t b = operand(values, kPageTokens);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int at = step / 2 * Shape::kValuePageBytes + i * Shape::kChain * kPageTokens + step % 2 * 32;
      multiply_e4m3(products, weights_ + 4 * step, advanced(b, at), step > 0);
    }
  }

  __device__ void join_weights(float first, float second) {
    weight[0] = fmaf(weight[0], change_[0], first);
    weight[1] = fmaf(weight[1], change_[1], second);
  }

  float scores_[kScores];
  std::int32_t products_[Shape::kIntegerKeys ? kScores : 1];  // of queries and keys in int8
  std::uint32_t weights_[4 * kSteps];
  float change_[2];
  float scale_[2];  // of products, to powers of two
};

// The weight of a row from what its lanes hold.
template <class Shape>
__device__ float whole_weight(float weight) {
  if constexpr (Shape::kEightBit) return weight;
  weight += __shfl_xor_sync(~0u, weight, 1);
  return weight + __shfl_xor_sync(~0u, weight, 2);
}

}  // namespace octavo::cuda::sm90
