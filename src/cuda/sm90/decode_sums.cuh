// The heads of a decode's tile in one warpgroup, over the pages that it takes: S^T = K Q^T with tokens as rows,
// softmax, O^T = V^T P^T.
//
// Queries and weights over an 8-bit cache enter the products as two numbers each, so what they lose by rounding is what
// bfloat16 would; sums of a page start from zero and join O in float32. A lane (g = lane / 4, c = lane % 4) of
// warp w holds of a page the tokens 16 w + g and + 8, of O the numbers 64 i + 16 w + g and + 8, of the heads 2 c and
// + 1.
#pragma once

#include <type_traits>

#include "cuda/portable/decode.cuh"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/decode_shape.h"
#include "cuda/sm90/operands.cuh"
#include "cuda/sm90/wgmma.cuh"

namespace octavo::cuda::sm90 {

using portable::kLog2e;
using portable::minus_infinity;
using portable::power_of_two;

// Of a page: its places [first, end) are seen.
struct SeenPlaces {
  int first, end;
};

template <class Shape>
class DecodeSums {
 public:
  static constexpr int kParts = Shape::kWidth / 64;
  float sums[kParts][4];
  float maximum[2];  // in powers of two
  float weight[2];   // of this lane's tokens until reduce()

  __device__ DecodeSums(std::byte* shared, int warpgroup, float soft_cap)
      : weights_(shared + Shape::kWeights + warpgroup * Shape::kPages * Shape::kWeightBytes),
        maxima_(reinterpret_cast<float*>(shared + Shape::kMaxima) + warpgroup * 2 * 4 * kDecodeHeads),
        query_operand_(operand(shared_address(shared) + Shape::kQuery, Shape::kChunk)),
        weight_operand_(operand(shared_address(weights_), Shape::kWeightRow)),
        meeting_(1 + warpgroup),
        soft_cap_(soft_cap) {}

  // scale: of products, for this lane's heads.
  __device__ void start(float2 scale) {
    scale_[0] = scale.x;
    scale_[1] = scale.y;
#pragma unroll
    for (auto& part : sums) part[0] = part[1] = part[2] = part[3] = 0.0f;
    maximum[0] = maximum[1] = minus_infinity();
    weight[0] = weight[1] = 0.0f;
  }

  // All four warps call it, for pages of which at least one place is seen. scales: of K's tokens, where it has them.
  __device__ void take(std::uint32_t pages, std::uint32_t scales, const SeenPlaces (&seen)[Shape::kPages]) {
    float scores[Shape::kPages][4];
    multiply_keys(pages, scales, scores);
    float change[2];
    weigh(scores, seen, change);
#pragma unroll
    for (int page = 0; page < Shape::kPages; ++page) store_weights(scores[page], weights_ + page * Shape::kWeightBytes);
    publish();
    meet(meeting_, 128);
    multiply_values(pages + Shape::kBlockBytes, change);
  }

  __device__ void reduce() {
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
#pragma unroll
      for (float& of_head : weight) of_head += __shfl_xor_sync(~0u, of_head, step);
  }

 private:
  // scores of a page: token g of heads 2 c and + 1, then token g + 8.
  __device__ void multiply_keys(std::uint32_t pages, std::uint32_t scales, float (&scores)[Shape::kPages][4]) {
    std::conditional_t<Shape::kIntegerKeys, std::int32_t, float> products[Shape::kPages][Shape::kColumns / 2];
    begin_products();
#pragma unroll
    for (int page = 0; page < Shape::kPages; ++page) {
      const std::uint64_t tile = operand(pages + page * Shape::kPageBytes, Shape::kChunk);
#pragma unroll
      for (int k = 0; k < Shape::kRowBytes / 32; ++k) {
        const int chunk = k * 32 / Shape::kChunk, in_chunk = k * 32 % Shape::kChunk;
        const std::uint64_t a = advanced(tile, chunk * kPageTokens * Shape::kChunk + in_chunk);
        const std::uint64_t b = advanced(query_operand_, chunk * Shape::kColumns * Shape::kChunk + in_chunk);
        if constexpr (Shape::kIntegerKeys) {
          multiply_int8(products[page], a, b, k > 0);
        } else if constexpr (Shape::kEightBit) {
          multiply_e4m3(products[page], a, b, k > 0);
        } else {
          multiply_bf16(products[page], a, b, k > 0);
        }
      }
    }
    end_group();
    float of_token[Shape::kPages][2];
#pragma unroll
    for (int page = 0; page < Shape::kPages; ++page) {
      of_token[page][0] = of_token[page][1] = 1.0f;
      if constexpr (Shape::kIntegerKeys) {
        const int token = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
        of_token[page][0] = shared_bf16(scales + page * Shape::kScalesOfPage + 2 * token);
        of_token[page][1] = shared_bf16(scales + page * Shape::kScalesOfPage + 2 * token + 16);
      }
    }
    wait_groups<0>();
#pragma unroll
    for (int page = 0; page < Shape::kPages; ++page) {
      hold(products[page]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[page][i];
        score = static_cast<float>(products[page][i]);
        if constexpr (Shape::kEightBit)
          score = fmaf(static_cast<float>(products[page][4 + i]), 1.0f / Shape::kQueryRest, score);
        if constexpr (Shape::kIntegerKeys) score *= of_token[page][i / 2];
        score *= scale_[i % 2];
        if (soft_cap_ > 0.0f) score = soft_cap_ * kLog2e * tanhf(score / soft_cap_);
      }
    }
  }

  // Scores become weights under the running maximum of all tokens so far.
  __device__ void weigh(float (&scores)[Shape::kPages][4], const SeenPlaces (&seen)[Shape::kPages],
                        float (&change)[2]) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, c = lane % 4;
    float most[2] = {minus_infinity(), minus_infinity()};
#pragma unroll
    for (int page = 0; page < Shape::kPages; ++page)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int place = 16 * warp + lane / 4 + i / 2 * 8;
        if (place < seen[page].first || place >= seen[page].end) scores[page][i] = minus_infinity();
        most[i % 2] = fmaxf(most[i % 2], scores[page][i]);
      }
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
#pragma unroll
      for (float& of_head : most) of_head = fmaxf(of_head, __shfl_xor_sync(~0u, of_head, step));
    float* of_warps = maxima_ + turn_ * 4 * kDecodeHeads;
    turn_ ^= 1;
    if (lane < 4) *reinterpret_cast<float2*>(of_warps + warp * kDecodeHeads + 2 * c) = make_float2(most[0], most[1]);
    meet(meeting_, 128);
#pragma unroll
    for (int other = 0; other < 4; ++other) {
      const float2 two = *reinterpret_cast<const float2*>(of_warps + other * kDecodeHeads + 2 * c);
      most[0] = fmaxf(most[0], two.x);
      most[1] = fmaxf(most[1], two.y);
    }
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      most[head] = fmaxf(most[head], maximum[head]);
      change[head] = power_of_two(maximum[head] - most[head]);
      maximum[head] = most[head];
      weight[head] *= change[head];
      const float shift = Shape::kWeightBits - most[head];
#pragma unroll
      for (int page = 0; page < Shape::kPages; ++page) {
        scores[page][head] = power_of_two(scores[page][head] + shift);
        scores[page][2 + head] = power_of_two(scores[page][2 + head] + shift);
        weight[head] += scores[page][head] + scores[page][2 + head];
      }
    }
  }

  // P^T: rows are heads, tokens side by side. Lanes of even and odd g exchange halves, so that each has one head.
  __device__ static void store_weights(const float (&p)[4], std::byte* weights) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const bool odd = (g & 1) != 0;
    const int head = 2 * c + (odd ? 1 : 0);
    if constexpr (Shape::kEightBit) {
      const auto store = [&](std::uint32_t own, int row) {
        const std::uint32_t other = __shfl_xor_sync(~0u, own, 4);
        // In the order of tokens in a page of V: those of even and odd g, then both + 8.
        const std::uint32_t four = odd ? __byte_perm(other, own, 0x7362) : __byte_perm(own, other, 0x5140);
        *reinterpret_cast<std::uint32_t*>(weights + swizzled(row * Shape::kWeightRow + warp * 16 + g / 2 * 4, 64)) =
            four;
      };
      const std::uint32_t codes = to_e4m3(p[0], p[2], p[1], p[3]);
      store(codes, head);
      store(rest_to_e4m3<kRestTimes>(codes, p[0], p[2], p[1], p[3]), head + kDecodeHeads);
    } else {
      const std::uint32_t first = to_bf16(p[0], p[2]), second = to_bf16(p[1], p[3]);
      const std::uint32_t other = __shfl_xor_sync(~0u, odd ? first : second, 4);
      const std::uint32_t even_g = odd ? other : first, odd_g = odd ? second : other;
      const int at = head * Shape::kWeightRow + warp * 32 + g / 2 * 4;
      *reinterpret_cast<std::uint32_t*>(weights + swizzled(at, 128)) = __byte_perm(even_g, odd_g, 0x5410);
      *reinterpret_cast<std::uint32_t*>(weights + swizzled(at + 16, 128)) = __byte_perm(even_g, odd_g, 0x7632);
    }
  }

  __device__ void multiply_values(std::uint32_t values, const float (&change)[2]) {
    constexpr int kSteps = Shape::kWeightRow / 32;  // of a page
    float products[kParts][Shape::kColumns / 2];
    begin_products();
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int step = 0; step < Shape::kPages * kSteps; ++step) {
        const int page = step / kSteps, k = step % kSteps;
        const std::uint64_t b = advanced(weight_operand_, page * Shape::kWeightBytes + 32 * k);
        const std::uint32_t of_page = values + page * Shape::kPageBytes;
        if constexpr (Shape::kEightBit) {
          const std::uint64_t a = operand(of_page + part * 64 * kPageTokens + 32 * k, kPageTokens);
          multiply_e4m3(products[part], a, b, step > 0);
        } else {
          const std::uint64_t a = transposed_operand(of_page + part * kPageTokens * 128 + 2048 * k, kPageTokens * 128);
          multiply_transposed_bf16(products[part], a, b, step > 0);
        }
      }
    end_group();
    wait_groups<0>();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      hold(products[part]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float product = products[part][i];
        if constexpr (Shape::kEightBit) product = fmaf(products[part][4 + i], 1.0f / kRestTimes, product);
        sums[part][i] = fmaf(sums[part][i], change[i % 2], product);
      }
    }
  }

  std::byte* weights_;
  float* maxima_;
  std::uint64_t query_operand_, weight_operand_;
  int meeting_;
  int turn_ = 0;
  float soft_cap_;
  float scale_[2];
};

}  // namespace octavo::cuda::sm90
