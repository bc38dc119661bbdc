// Queries of a block of wide heads and their products with a tile's K, which go to shared memory as sums over parts of
// the numbers. Sixteen rows are held in registers: a warp has a quarter of their numbers and half of a tile's tokens.
// More lie in shared memory as fragments.
#pragma once

#include "cuda/portable/query_rows.cuh"
#include "cuda/portable/wide_tiles.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda::portable {

// Where a tile has eight numbers in bfloat16, or sixteen in 8 bits, of a token.
template <int kTokens>
__device__ std::uint32_t tile_piece(std::uint32_t keys, int token, int piece) {
  return keys + piece / 8 * kTokens * 128 + token * 128 + ((piece % 8 ^ token % 8) << 4);
}

template <int kWidth, KvElem kKey, class Shared>
class HeldQueries {
 public:
  static constexpr Operand kOperand = is_8bit(kKey) ? Operand::f16 : Operand::bf16;
  static constexpr int kSteps = kWidth / 16 / Shared::kParts;  // of a warp
  static constexpr int kTokens = Shared::kTokens;
  static_assert(kTokens % 32 == 0 && (!is_8bit(kKey) || kSteps % 4 == 0));

  __device__ explicit HeldQueries(std::byte*) {}

  // row_of(i): this lane's row g + 8 i, or null; place_of(step): where a step's numbers begin in it, or -1. Both read
  // as zeros then.
  template <class RowOf, class PlaceOf>
  __device__ void start(const RowOf& row_of, const PlaceOf& place_of) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const __nv_bfloat16* from = row_of(row);
      factor_[row] = 1.0f;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int place = place_of(part() * kSteps + step);
        const uint2 four =
            from != nullptr && place >= 0 ? query_numbers<is_8bit(kKey)>(from + place) : make_uint2(0, 0);
        query_[step][row] = four.x;
        query_[step][row + 2] = four.y;
      }
    }
    if constexpr (is_8bit(kKey)) scale_query<Operand::f16, 14>(query_, factor_);
  }

  // scores: [part, row, token].
  __device__ void multiply(std::uint32_t keys, float* scores) const {
    const int first = threadIdx.x / 32 / Shared::kParts * (kTokens / 2), lane = threadIdx.x % 32;
    float* const to = scores + (part() * 16 + lane / 4) * Shared::kScoreRow + lane % 4 * 2;
#pragma unroll
    for (int token = 0; token < kTokens / 2; token += 16) {
      float products[2][4] = {};
      multiply_tokens(keys, first + token, products);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int row = 0; row < 2; ++row)
          *reinterpret_cast<float2*>(to + row * 8 * Shared::kScoreRow + first + token + 8 * n) =
              make_float2(products[n][2 * row] * factor_[row], products[n][2 * row + 1] * factor_[row]);
    }
  }

 private:
  // Sixteen tokens.
  __device__ void multiply_tokens(std::uint32_t keys, int token, float (&products)[2][4]) const {
    const int lane = threadIdx.x % 32, r = lane % 8, first_step = part() * kSteps;
    if constexpr (is_8bit(kKey)) {  // a piece is a step
#pragma unroll
      for (int step = 0; step < kSteps; step += 4)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          std::uint32_t k[4];
          load_matrices(k, tile_piece<kTokens>(keys, token + 8 * n + r, first_step + step + lane / 8));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            std::uint32_t low, high;
            unpack<kKey>(k[i], low, high);
            multiply_add<kOperand>(products[n], query_[step + i], low, high);
          }
        }
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        std::uint32_t k[4];
        load_matrices(k, tile_piece<kTokens>(keys, token + lane / 16 * 8 + r, 2 * (first_step + step) + lane / 8 % 2));
        multiply_add<kOperand>(products[0], query_[step], k[0], k[1]);
        multiply_add<kOperand>(products[1], query_[step], k[2], k[3]);
      }
    }
  }
  __device__ static int part() { return threadIdx.x / 32 % Shared::kParts; }

  std::uint32_t query_[kSteps][4];
  float factor_[2];
};

// 32 rows; a warp has 16 of them and 8 tokens.
template <int kWidth, KvElem kKey, class Shared>
class SharedQueries {
 public:
  static constexpr Operand kOperand = is_8bit(kKey) ? Operand::f16 : Operand::bf16;
  static constexpr int kSharers = kWideThreads / kWideTileRows;  // threads of a row
  static_assert(Shared::kTokens == 32 && Shared::kParts == 1);

  __device__ explicit SharedQueries(std::byte* shared)
      : shared_(shared + Shared::kQueries), address_(shared_address(shared_)) {}

  // This thread's row, or null; place_of as above. What its products are multiplied with to be those of its numbers.
  template <class PlaceOf>
  __device__ float start(const __nv_bfloat16* from, const PlaceOf& place_of) const {
    const int first = threadIdx.x % kSharers;
    const auto numbers_of = [&](int piece) {
      const int place = from == nullptr ? -1 : place_of(piece / 2);
      return place < 0 ? make_uint4(0, 0, 0, 0) : *reinterpret_cast<const uint4*>(from + place + piece % 2 * 8);
    };
    float factor = 1.0f, larger = 1.0f;
    if constexpr (is_8bit(kKey)) {  // scaled as in scale_query()
      std::uint32_t most = 0;
      for (int piece = first; piece < kWidth / 8; piece += kSharers) {
        const uint4 x = numbers_of(piece);
        for (const std::uint32_t two : {x.x, x.y, x.z, x.w})
          most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
      }
      for (int step = 1; step < kSharers; step *= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
      const int exponent = min(253, max(1, 268 - static_cast<int>(most >> 23)));
      larger = __int_as_float(exponent << 23);
      factor = __int_as_float((254 - exponent) << 23);
    }
    for (int piece = first; piece < kWidth / 8; piece += kSharers) {
      uint4 x = numbers_of(piece);
      if constexpr (is_8bit(kKey))
        for (std::uint32_t* two : {&x.x, &x.y, &x.z, &x.w})
          *two =
              packed<Operand::f16>(__uint_as_float(*two << 16) * larger, __uint_as_float(*two & 0xFFFF0000u) * larger);
      put_piece(piece, x);
    }
    return factor;
  }

  // scores: [row, token].
  __device__ void multiply(std::uint32_t keys, float* scores) const {
    constexpr int kStepsAPart = is_8bit(kKey) ? 4 : 2;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, r = lane % 8, first = warp % 4 * 8, tile = warp / 4;
    const std::uint32_t query = address_ + tile * 16 * kWidth * 2;
    float products[2][4] = {};
#pragma unroll 2
    for (int part = 0; part < kWidth / 16 / kStepsAPart; ++part) {
      std::uint32_t k[4];
      load_matrices(k, tile_piece<32>(keys, first + r, 4 * part + lane / 8));
#pragma unroll
      for (int i = 0; i < kStepsAPart; ++i) {
        std::uint32_t q[4], low, high;
        load_query(q, query, part * kStepsAPart + i);
        if constexpr (is_8bit(kKey)) {
          unpack<kKey>(k[i], low, high);
        } else {
          low = k[2 * i], high = k[2 * i + 1];
        }
        multiply_add<kOperand>(products[i % 2], q, low, high);
      }
    }
    float* const to = scores + (tile * 16 + lane / 4) * Shared::kScoreRow + first + lane % 4 * 2;
    for (int i = 0; i < 4; ++i) to[i / 2 * 8 * Shared::kScoreRow + i % 2] = products[0][i] + products[1][i];
  }

 private:
  // Eight numbers of this thread's row: they lie as the fragments of 16 rows and 16 numbers that a lane loads as one
  // piece; for K in 8 bits the numbers of a step are in the order in which its bytes unpack.
  __device__ void put_piece(int piece, const uint4& x) const {
    const int row = threadIdx.x / kSharers, tile = row / 16, g = row % 8, below = row / 8 % 2;
    const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < 4; ++i) {
      const int pair = piece % 2 * 4 + i;  // of the step's eight
      const int c = is_8bit(kKey) ? pair / 2 : pair % 4, later = is_8bit(kKey) ? pair % 2 : pair / 4;
      *reinterpret_cast<std::uint32_t*>(shared_ + tile * 16 * kWidth * 2 + piece / 2 * 512 + (4 * g + c) * 16 +
                                        (2 * later + below) * 4) = words[i];
    }
  }
  __device__ static void load_query(std::uint32_t (&q)[4], std::uint32_t from, int step) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3])
                 : "r"(from + step * 512 + threadIdx.x % 32 * 16)
                 : "memory");
  }

  std::byte* shared_;
  std::uint32_t address_;
};

}  // namespace octavo::cuda::portable
