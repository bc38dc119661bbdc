// WideBlock: the query rows of one block of wide heads, in three verbs a tile: products with K, weights, sums of V. The
// warps share the first by numbers and tokens and the last by columns; between them scores and weights lie in shared
// memory, where a few threads a row keep its softmax.
#pragma once

#include <type_traits>

#include "cuda/portable/warp_rows.cuh"
#include "cuda/portable/wide_queries.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda::portable {

// What a softmax thread knows of its row: it shares the row with its neighbours and has a few tokens of each tile.
struct WideRow {
  int row;   // of the tile
  int last;  // that it sees, counted from the first tile's first token
  int first;
  float factor;         // of its products
  float maximum;        // in powers of two
  float weight = 0.0f;  // of the tokens that this thread had
  float unit;           // as in WarpRows
};

// kWidth: of keys. Place: where everything lies in shared memory, and how wide values are.
template <int kWidth, KvElem kKey, KvElem kValue, int kRows, class Place = WideShared<kWidth, kKey, kValue, kRows>>
class WideBlock {
 public:
  using Shared = Place;
  using Queries =
      std::conditional_t<Shared::kQueriesHeld, HeldQueries<kWidth, kKey, Shared>, SharedQueries<kWidth, kKey, Shared>>;
  static constexpr Operand kValueOperand = kValue == KvElem::bf16 ? Operand::bf16 : Operand::f16;
  static constexpr float kWeightBits = kValueOperand == Operand::f16 ? 14.0f : 0.0f;
  static constexpr int kRowTiles = kRows / 16;
  static constexpr int kSharers = kWideThreads / kRows;              // threads of a row
  static constexpr int kTokens = Shared::kTokens / kSharers;         // of a tile, a thread's
  static constexpr int kColumns = Shared::kValueWidth / kWideWarps;  // numbers of values, a warp's
  static_assert(kTokens == 2 || kTokens == 4);

  float sums[kRowTiles][kColumns / 8][4];
  WideRow mine;
  Queries queries;

  __device__ explicit WideBlock(std::byte* shared)
      : queries(shared), shared_(shared), address_(shared_address(shared)) {
    mine.row = threadIdx.x / kSharers;
    mine.maximum = minus_infinity();
    mine.unit = kValue == KvElem::int8 ? 0x1p-100f : 1.0f;
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (auto& sum : tile) sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
  }

  // row_of(r): a row of the tile, or null; place_of: as in the queries' classes.
  template <class RowOf, class PlaceOf>
  __device__ void start(const RowOf& row_of, const PlaceOf& place_of, const ScoreRule& rule) {
    float factor = 1.0f;
    if constexpr (Shared::kQueriesHeld) {
      const int g = threadIdx.x % 32 / 4;
      queries.start([&](int i) { return row_of(g + 8 * i); }, place_of);
    } else {
      factor = queries.start(row_of(mine.row), place_of);
    }
    mine.factor = fmaxf(factor * rule.scale, 1e-37f);  // a mask of minus infinity stays one
  }

  // Products of the queries and the tile's K, to shared memory.
  __device__ void multiply_keys(int tile) { queries.multiply(address_ + Shared::keys(tile), scores()); }

  // Which tokens this thread's row sees, up to a position in its sequence; page: the first tile's.
  __device__ void see(int position, int window, int page) {
    mine.last = position - page * kPageTokens;
    mine.first = window > 0 ? mine.last - window + 1 : 0;
  }

  // Products become weights in shared memory.
  __device__ void weigh(int tile, float soft_cap) {
    const int first = threadIdx.x % kSharers * kTokens;
    float score[kTokens], most = mine.maximum, scale[kTokens], largest = mine.unit;
    get_products(first, score);
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      score[i] *= mine.factor;
      if constexpr (kKey == KvElem::int8) score[i] *= token_scale(Shared::key_scales(tile), first + i);
      if (soft_cap > 0.0f) score[i] = soft_cap * kLog2e * tanhf(score[i] / soft_cap);
      const int token = tile * Shared::kTokens + first + i;
      if (token > mine.last || token < mine.first) score[i] = minus_infinity();
      most = fmaxf(most, score[i]);
      if constexpr (kValue == KvElem::int8) {
        scale[i] = token_scale(Shared::value_scales(tile), first + i);
        largest = fmaxf(largest, scale[i]);
      }
    }
    for (int step = 1; step < kSharers; step *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
      if constexpr (kValue == KvElem::int8) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    const float base = most == minus_infinity() ? 0.0f : most;
    float change = mine.maximum == most ? 1.0f : power_of_two(mine.maximum - base);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kTokens; ++i) sum += score[i] = power_of_two(score[i] - base + kWeightBits);
    mine.weight = mine.weight * change + sum;
    mine.maximum = most;
    if constexpr (kValue == KvElem::int8) {
      const float unit = unit_below(__float_as_uint(largest));
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
  __device__ void multiply_values(int of_tile) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    const std::uint32_t values = address_ + Shared::values(of_tile);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const float upper = changes()[16 * tile + g], lower = changes()[16 * tile + g + 8];
#pragma unroll
      for (auto& sum : sums[tile]) sum[0] *= upper, sum[1] *= upper, sum[2] *= lower, sum[3] *= lower;
    }
#pragma unroll
    for (int step = 0; step < Shared::kTokens / 16; ++step) {
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
        load_matrices(a[tile],
                      address_ + Shared::kWeights + weight_offset(16 * tile + lane % 16, 32 * step + lane / 16 * 16));
      if constexpr (kValue == KvElem::bf16) {
        multiply_rows(values, step, a);
      } else {
        multiply_bytes(values, step, a);
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
  // Of this thread's row, over all numbers.
  __device__ void get_products(int first, float (&to)[kTokens]) const {
    struct alignas(4 * kTokens) Products {
      float of_token[kTokens];
    };
#pragma unroll
    for (int part = 0; part < Shared::kParts; ++part) {
      const Products more =
          *reinterpret_cast<const Products*>(scores() + (part * kRows + mine.row) * Shared::kScoreRow + first);
#pragma unroll
      for (int i = 0; i < kTokens; ++i) to[i] = part == 0 ? more.of_token[i] : to[i] + more.of_token[i];
    }
  }
  // Rows of 64 or 128 bytes, their pieces exchanged so that eight rows do not collide.
  __device__ static int weight_offset(int row, int b) {
    constexpr int kRow = 2 * Shared::kTokens;
    return row * kRow + ((b / 16 ^ (kRow == 64 ? row >> 1 & 3 : row & 7)) << 4) + b % 16;
  }

  __device__ void multiply_rows(std::uint32_t values, int step, const std::uint32_t (&a)[kRowTiles][4]) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      std::uint32_t v[4];
      load_transposed(
          v, tile_piece<Shared::kTokens>(values, 16 * step + 8 * (m & 1) + r, first_column() / 8 + 2 * i + (m >> 1)));
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        multiply_add<kValueOperand>(sums[tile][2 * i], a[tile], v[0], v[1]);
        multiply_add<kValueOperand>(sums[tile][2 * i + 1], a[tile], v[2], v[3]);
      }
    }
  }
  __device__ void multiply_bytes(std::uint32_t values, int step, const std::uint32_t (&a)[kRowTiles][4]) {
    constexpr int kRow = Shared::kTokens;  // bytes of a number
    const int lane = threadIdx.x % 32, turn = kRow == 64 ? lane >> 1 & 3 : lane >> 2 & 1;
#pragma unroll
    for (int i = 0; i < kColumns / 32; ++i) {
      std::uint32_t v[4];
      load_matrices(v, values + (first_column() + 32 * i + lane) * kRow + ((step ^ turn) << 4));
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
