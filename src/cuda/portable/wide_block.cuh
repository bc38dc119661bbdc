// WideBlock: the query rows of one block of wide heads, in three verbs a tile: products with K, weights, sums of V. The
// warps share the first by tokens and the last by columns; between them scores and weights lie in shared memory, where
// a few threads a row keep its softmax.
#pragma once

#include "cuda/portable/warp_rows.cuh"
#include "cuda/portable/wide_tiles.cuh"

namespace octavo::cuda::portable {

// What a softmax thread knows of its row: it shares the row with its neighbours and has a few tokens of each tile.
struct WideRow {
  int row;              // of the tile
  int position;         // the last it sees, in its sequence
  int first;            // the first it sees
  float factor;         // of its products
  float maximum;        // in powers of two
  float weight = 0.0f;  // of all tokens
  float unit;           // as in WarpRows
};

// kWidth: of keys. Place: where everything lies in shared memory, and how wide values are.
template <int kWidth, KvElem kKey, KvElem kValue, int kRows, class Place = WideShared<kWidth, kKey, kValue, kRows>>
class WideBlock {
 public:
  using Shared = Place;
  static constexpr Operand kKeyOperand = kKey == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;
  static constexpr int kRowTiles = kRows / 16;
  static constexpr int kSharers = kWideThreads / kRows;              // threads of a row
  static constexpr int kTokens = kWideTokens / kSharers;             // of a tile, a thread's
  static constexpr int kColumns = Shared::kValueWidth / kWideWarps;  // numbers of values, a warp's

  float sums[kRowTiles][kColumns / 8][4];
  WideRow mine;

  __device__ explicit WideBlock(std::byte* shared)
      : shared_(shared), address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {
    mine.row = threadIdx.x / kSharers;
    mine.maximum = minus_infinity();
    mine.unit = kValue == KvElem::int8 ? 0x1p-100f : 1.0f;
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (auto& sum : tile) sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
  }

  // This thread's row, of `width` numbers, or null: to shared memory, in float16 as in WarpRows.
  __device__ void put_query(const __nv_bfloat16* from, int width, const ScoreRule& rule) {
    const int first = threadIdx.x % kSharers;
    std::uint32_t most = 0;
    for (int piece = first; from != nullptr && piece < width / 8; piece += kSharers) {
      const uint4 x = reinterpret_cast<const uint4*>(from)[piece];
      for (const std::uint32_t two : {x.x, x.y, x.z, x.w})
        most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
    }
    for (int step = 1; step < kSharers; step *= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
    const int exponent = kKeyOperand == Operand::f16 ? min(253, max(1, 268 - static_cast<int>(most >> 23))) : 127;
    const float larger = __int_as_float(exponent << 23);
    mine.factor = fmaxf(__int_as_float((254 - exponent) << 23) * rule.scale, 1e-37f);
    for (int piece = first; piece < kWidth / 8; piece += kSharers) {
      uint4 x = make_uint4(0, 0, 0, 0);
      if (from != nullptr && piece < width / 8) x = reinterpret_cast<const uint4*>(from)[piece];
      if constexpr (kKeyOperand == Operand::f16)
        for (std::uint32_t* two : {&x.x, &x.y, &x.z, &x.w})
          *two =
              packed<Operand::f16>(__uint_as_float(*two << 16) * larger, __uint_as_float(*two & 0xFFFF0000u) * larger);
      put_query_piece(piece, x);
    }
  }

  // Queries lie as the fragments of 16 rows and 16 numbers that a lane loads as one piece; for K in 8 bits the numbers
  // of a step are in the order in which its bytes unpack.
  __device__ void put_query_piece(int piece, const uint4& x) const {
    const int tile = mine.row / 16, g = mine.row % 8, below = mine.row / 8 % 2;
    const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < 4; ++i) {
      const int pair = piece % 2 * 4 + i;  // of the step's eight
      const int c = is_8bit(kKey) ? pair / 2 : pair % 4, later = is_8bit(kKey) ? pair % 2 : pair / 4;
      *reinterpret_cast<std::uint32_t*>(shared_ + Shared::kQueries + tile * 16 * kWidth * 2 + piece / 2 * 512 +
                                        (4 * g + c) * 16 + (2 * later + below) * 4) = words[i];
    }
  }

  // Products of the queries and the tile's K, to shared memory: a warp has 8 tokens, and either 16 rows or one half of
  // the numbers.
  __device__ void multiply_keys() {
    constexpr int kSteps = kWidth / 16 / (kRowTiles == 1 ? 2 : 1);  // of 16 numbers, a warp's
    constexpr int kStepsAPart = is_8bit(kKey) ? 4 : 2;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, r = lane % 8;
    const int upper = warp / 4, first = kRowTiles == 1 ? upper * kSteps : 0;
    const std::uint32_t keys = address_ + Shared::kKeys + (warp % 4 * 8 + r) * 128;
    const std::uint32_t query = address_ + Shared::kQueries + (kRowTiles == 1 ? 0 : upper) * 16 * kWidth * 2;
    float products[2][4] = {};
#pragma unroll 2
    for (int part = first / kStepsAPart; part < (first + kSteps) / kStepsAPart; ++part) {
      std::uint32_t k[4];
      load_matrices(k, keys + part / 2 * kWideTokens * 128 + (((part % 2 * 4 + lane / 8) ^ r) << 4));
#pragma unroll
      for (int i = 0; i < kStepsAPart; ++i) {
        std::uint32_t q[4], low, high;
        load_query(q, query, part * kStepsAPart + i);
        if constexpr (is_8bit(kKey)) {
          unpack<kKey>(k[i], low, high);
        } else {
          low = k[2 * i], high = k[2 * i + 1];
        }
        multiply_add<kKeyOperand>(products[i % 2], q, low, high);
      }
    }
    float* to = scores() + upper * 16 * Shared::kScoreRow + lane / 4 * Shared::kScoreRow + warp % 4 * 8 + lane % 4 * 2;
    for (int i = 0; i < 4; ++i) to[i / 2 * 8 * Shared::kScoreRow + i % 2] = products[0][i] + products[1][i];
  }

  // Products become weights in shared memory. first_token: the tile's, in its sequence.
  __device__ void weigh(int first_token, float soft_cap) {
    const int first = threadIdx.x % kSharers * kTokens;
    float score[kTokens], most = mine.maximum, scale[kTokens], largest = mine.unit;
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      score[i] = product(first + i) * mine.factor;
      if constexpr (kKey == KvElem::int8) score[i] *= token_scale(Shared::kKeyScales, first + i);
      if (soft_cap > 0.0f) score[i] = soft_cap * kLog2e * tanhf(score[i] / soft_cap);
      const int token = first_token + first + i;
      if (token > mine.position || token < mine.first) score[i] = minus_infinity();
      most = fmaxf(most, score[i]);
      scale[i] = kValue == KvElem::int8 ? token_scale(Shared::kValueScales, first + i) : 1.0f;
      largest = fmaxf(largest, scale[i]);
    }
    for (int step = 1; step < kSharers; step *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    const float base = most == minus_infinity() ? 0.0f : most;
    float change = mine.maximum == most ? 1.0f : power_of_two(mine.maximum - base);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kTokens; ++i) sum += score[i] = power_of_two(score[i] - base + kWeightBits);
    for (int step = 1; step < kSharers; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    mine.weight = mine.weight * change + sum;
    mine.maximum = most;
    if constexpr (kValue == KvElem::int8) {
      const float unit = __uint_as_float(min(__float_as_uint(largest) & 0x7F800000u, 0x7E000000u));
      change *= mine.unit / unit;
      mine.unit = unit;
#pragma unroll
      for (int i = 0; i < kTokens; ++i) score[i] *= scale[i] / unit;
    }
#pragma unroll
    for (int i = 0; i < kTokens; i += 2)
      *reinterpret_cast<std::uint32_t*>(shared_ + Shared::kWeights + weight_offset(mine.row, 2 * (first + i))) =
          packed<kValueOperand>(score[i], score[i + 1]);
    if (first == 0) changes()[mine.row] = change;
  }

  // Adds the tile's weighted V to the sums of this warp's columns.
  __device__ void multiply_values() {
    const int lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const float upper = changes()[16 * tile + g], lower = changes()[16 * tile + g + 8];
#pragma unroll
      for (auto& sum : sums[tile]) sum[0] *= upper, sum[1] *= upper, sum[2] *= lower, sum[3] *= lower;
    }
#pragma unroll
    for (int step = 0; step < kWideTokens / 16; ++step) {
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
        load_matrices(a[tile],
                      address_ + Shared::kWeights + weight_offset(16 * tile + lane % 16, 32 * step + lane / 16 * 16));
      if constexpr (kValue == KvElem::bf16) {
        multiply_rows(step, a);
      } else {
        multiply_bytes(step, a);
      }
    }
  }

  __device__ int first_column() const { return threadIdx.x / 32 * kColumns; }
  __device__ float& kept(int which, int row) const { return scores()[which * kRows + row]; }

 private:
  __device__ float* scores() const { return reinterpret_cast<float*>(shared_ + Shared::kScores); }
  __device__ float* changes() const { return reinterpret_cast<float*>(shared_ + Shared::kChanges); }
  __device__ float token_scale(int at, int token) const {
    return __uint_as_float(std::uint32_t{reinterpret_cast<const std::uint16_t*>(shared_ + at)[token]} << 16);
  }
  __device__ float product(int token) const {
    const float* from = scores() + mine.row * Shared::kScoreRow + token;
    return kRowTiles == 1 ? from[0] + from[16 * Shared::kScoreRow] : from[0];
  }
  // Rows of 64 bytes, their pieces exchanged so that eight rows do not collide.
  __device__ static int weight_offset(int row, int b) { return row * 64 + ((b / 16 ^ (row >> 1 & 3)) << 4) + b % 16; }

  __device__ static void load_query(std::uint32_t (&q)[4], std::uint32_t from, int step) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3])
                 : "r"(from + step * 512 + threadIdx.x % 32 * 16)
                 : "memory");
  }

  __device__ void multiply_rows(int step, const std::uint32_t (&a)[kRowTiles][4]) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      const int piece = first_column() / 8 + 2 * i + (m >> 1);
      std::uint32_t v[4];
      load_transposed(v, address_ + Shared::kValues + piece / 8 * kWideTokens * 128 +
                             (16 * step + 8 * (m & 1) + r) * 128 + ((piece % 8 ^ r) << 4));
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        multiply_add<kValueOperand>(sums[tile][2 * i], a[tile], v[0], v[1]);
        multiply_add<kValueOperand>(sums[tile][2 * i + 1], a[tile], v[2], v[3]);
      }
    }
  }
  __device__ void multiply_bytes(int step, const std::uint32_t (&a)[kRowTiles][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kColumns / 32; ++i) {
      const int d = first_column() + 32 * i + lane;
      std::uint32_t v[4];
      load_matrices(v, address_ + Shared::kValues + d * 32 + ((step ^ (d >> 2 & 1)) << 4));
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        std::uint32_t low, high;
        unpack<kValue>(v[n], low, high);
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile)
          multiply_add<kValueOperand>(sums[tile][4 * i + n], a[tile], low, high);
      }
    }
  }

  std::byte* shared_;
  const std::uint32_t address_;
};

}  // namespace octavo::cuda::portable
