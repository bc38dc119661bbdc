// The warps that take chunks of the delta rule: each holds 16 columns of the state, turned, in the registers of
// products, and waits for no other.
//
// What is not bf16 is float32 in all its digits: the state and what is added to it are sums of three bf16 numbers each,
// which is exact; products of two float32 numbers are three of tf32, off by 2^-21. Simulated over 4,096 tokens, parts
// of two bf16 numbers instead were off by 2e-5 to 1e-4 of a row.
#pragma once

#include "cuda/delta_chunk.cuh"
#include "cuda/portable/mma.cuh"

namespace octavo::cuda {

using portable::load_matrices;
using portable::load_transposed;
using portable::multiply_add;
using portable::Operand;

constexpr int kChunkUnits = kChunkTokens / 8;
constexpr int kStateTiles = kChunkKeyWidth / 8;

using Tile = float[4];  // 16 columns of values by 8 tokens or keys: a product's

// 16 columns by 16 tokens or keys, as the left side of a product.
struct ThreeParts {
  std::uint32_t parts[3][4];  // the smallest first

  __device__ ThreeParts(const Tile& left, const Tile& right) {
    set(0, left[0], left[1]);
    set(1, left[2], left[3]);
    set(2, right[0], right[1]);
    set(3, right[2], right[3]);
  }

 private:
  // The leading 8 bits of each, the next 8, and the last.
  __device__ void set(int i, float x, float y) {
#pragma unroll
    for (int part = 2; part >= 0; --part) {
      parts[part][i] = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);
      x -= __uint_as_float(__float_as_uint(x) & 0xFFFF0000u);
      y -= __uint_as_float(__float_as_uint(y) & 0xFFFF0000u);
    }
  }
};

__device__ inline std::uint32_t leading(float x) { return __float_as_uint(x) & 0xFFFFE000u; }
__device__ inline std::uint32_t rest(float x) { return __float_as_uint(x - __uint_as_float(leading(x))); }

// 16 columns by 8 tokens as the left side, in the order of a product's result, which is as good as any.
struct TwoParts {
  std::uint32_t high[4], low[4];

  __device__ explicit TwoParts(const Tile& x) {
    constexpr int kOrder[4] = {0, 2, 1, 3};
#pragma unroll
    for (int i = 0; i < 4; ++i) high[i] = leading(x[kOrder[i]]), low[i] = rest(x[kOrder[i]]);
  }
};
// Two numbers of a row of 8 tokens, as the right side.
struct TwoFactors {
  std::uint32_t high[2], low[2];

  __device__ explicit TwoFactors(float2 x) : high{leading(x.x), leading(x.y)}, low{rest(x.x), rest(x.y)} {}
};

// A warp with its 16 columns.
class ChunkTaker {
 public:
  __device__ ChunkTaker(const Delta<Bf16>& delta, const ChunkTask& task)
      : delta_(delta),
        task_(task),
        column_(static_cast<int>(threadIdx.x - kChunkMakers) / 32 * 16),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void take_all(DeltaChunk* stages, float* state, bool fresh) {
    float* const cells = state + lane_ % 4 * 2 * delta_.value_width + task_.first_column + column_ + lane_ / 4;
    each_cell([&](float& x, int at) { x = fresh ? 0.0f : cells[at]; });
    const int chunks = task_.chunks();
    for (int n = 0; n < chunks; ++n) {
      meet(kChunkFull + n % kChunkStages, kChunkThreads);
      Tile out[kChunkUnits] = {};
      take(stages[n % kChunkStages], out);
      if (n + kChunkStages < chunks) announce(kChunkEmpty + n % kChunkStages, kChunkThreads);
      store(out, task_.first(n), task_.count(n));
    }
    each_cell([&](float& x, int at) { cells[at] = x; });
  }

 private:
  template <class Visit>
  __device__ void each_cell(Visit visit) {
#pragma unroll
    for (int tile = 0; tile < kStateTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(state_[tile][i], (8 * tile + i % 2) * delta_.value_width + i / 2 * 8);
  }

  // A product that adds to the sum of the one before waits for it: between them stand those of other tiles.
  __device__ void take(const DeltaChunk& chunk, Tile (&out)[kChunkUnits]) {
    Tile news[kChunkUnits] = {};
    read_state(chunk, news, out);
    start_news(chunk, news);
    each_factor(chunk.gives, out, [](float& x, float factor) { x *= factor; });
    take_square<0>(chunk, news, out);
    take_square<2>(chunk, news, out);
    update_state(chunk, news);
  }

  __device__ void read_state(const DeltaChunk& chunk, Tile (&news)[kChunkUnits], Tile (&out)[kChunkUnits]) const {
    const int row = lane_ / 16 * 8 + lane_ % 8, half = lane_ / 8 % 2;
#pragma unroll
    for (int k = 0; k < kChunkKeyWidth / 16; ++k) {
      const ThreeParts state(state_[2 * k], state_[2 * k + 1]);
      std::uint32_t keys[kChunkUnits / 2][4], queries[kChunkUnits / 2][4];
#pragma unroll
      for (int i = 0; i < kChunkUnits / 2; ++i) {
        const int at = turned<kChunkKeyWidth>(16 * i + row, 2 * k + half);
        load_matrices(keys[i], shared_address(chunk.keys + at));
        load_matrices(queries[i], shared_address(chunk.queries + at));
      }
#pragma unroll
      for (int part = 0; part < 3; ++part) {
#pragma unroll
        for (int i = 0; i < kChunkUnits; ++i) {
          const int at = i % 2 * 2;
          multiply_add<Operand::bf16>(news[i], state.parts[part], keys[i / 2][at], keys[i / 2][at + 1]);
          multiply_add<Operand::bf16>(out[i], state.parts[part], queries[i / 2][at], queries[i / 2][at + 1]);
        }
      }
    }
  }

  // work(number, factor of its token)
  template <class Work>
  __device__ void each_factor(const float* factors, Tile (&tiles)[kChunkUnits], Work work) const {
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; ++unit) {
      const float2 two = *reinterpret_cast<const float2*>(factors + 8 * unit + lane_ % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) work(tiles[unit][i], i % 2 == 0 ? two.x : two.y);
    }
  }

  // Of k S: beta (v - exp(G) k S).
  __device__ void start_news(const DeltaChunk& chunk, Tile (&news)[kChunkUnits]) const {
    each_factor(chunk.reads, news, [](float& x, float factor) { x *= factor; });
    const int row = lane_ / 16 * 8 + lane_ % 8, piece = column_ / 8 + lane_ / 8 % 2;
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; unit += 2) {
      std::uint32_t v[4];
      load_transposed(v, shared_address(chunk.values + turned<kChunkColumns>(8 * unit + row, piece)));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 beta = *reinterpret_cast<const float2*>(chunk.betas + 8 * (unit + half) + lane_ % 4 * 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t two = v[2 * half + i / 2];
          const float value = __uint_as_float(i % 2 == 0 ? two << 16 : two & 0xFFFF0000u);
          news[unit + half][i] = fmaf(i % 2 == 0 ? beta.x : beta.y, value, news[unit + half][i]);
        }
      }
    }
  }

  // sums[i] += of the units from kFrom to kEnd, tile kFirst + i of a matrix; with a lower triangle, up to the tile's
  // own. The small parts are summed apart.
  template <int kFirst, int kFrom, int kCount>
  __device__ void add_products(const float (&matrix)[kChunkTokens][kChunkPad], const TwoParts (&given)[2],
                               Tile (&sums)[kChunkUnits]) const {
    Tile small[kCount] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int part = 0; part < 3; ++part) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if (kFirst + i < kFrom + j) continue;
          const TwoFactors factors(
              *reinterpret_cast<const float2*>(&matrix[8 * (kFirst + i) + lane_ / 4][8 * (kFrom + j) + lane_ % 4 * 2]));
          if (part == 0)
            portable::multiply_add_tf32(small[i], given[j].low, factors.high[0], factors.high[1]);
          else if (part == 1)
            portable::multiply_add_tf32(sums[kFirst + i], given[j].high, factors.high[0], factors.high[1]);
          else
            portable::multiply_add_tf32(small[i], given[j].high, factors.low[0], factors.low[1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int at = 0; at < 4; ++at) sums[kFirst + i][at] += small[i][at];
  }

  // What the 16 tokens of two units bring, then what it does to the later ones and to results.
  template <int kFrom>
  __device__ void take_square(const DeltaChunk& chunk, Tile (&news)[kChunkUnits], Tile (&out)[kChunkUnits]) const {
    const TwoParts given[2] = {TwoParts(news[kFrom]), TwoParts(news[kFrom + 1])};
#pragma unroll
    for (int i = 0; i < 4; ++i) news[kFrom][i] = news[kFrom + 1][i] = 0.0f;
    add_products<kFrom, kFrom, 2>(chunk.solve, given, news);
    const TwoParts found[2] = {TwoParts(news[kFrom]), TwoParts(news[kFrom + 1])};
    if constexpr (kFrom + 2 < kChunkUnits)
      add_products<kFrom + 2, kFrom, kChunkUnits - kFrom - 2>(chunk.solve, found, news);
    add_products<kFrom, kFrom, kChunkUnits - kFrom>(chunk.scores, found, out);
  }

  __device__ void update_state(const DeltaChunk& chunk, Tile (&news)[kChunkUnits]) {
    each_factor(chunk.writes, news, [](float& x, float factor) { x *= factor; });
    const float fade = expf(chunk.logs[kChunkTokens - 1]);
    const int row = lane_ / 8 % 2 * 8 + lane_ % 8, half = lane_ / 16;
    const ThreeParts parts[2] = {{news[0], news[1]}, {news[2], news[3]}};
    constexpr int kGroup = 8;
#pragma unroll
    for (int first = 0; first < kStateTiles; first += kGroup) {
#pragma unroll
      for (int i = 0; i < 4 * kGroup; ++i) state_[first + i / 4][i % 4] *= fade;
#pragma unroll
      for (int square = 0; square < 2; ++square) {
        std::uint32_t keys[kGroup / 2][4];
#pragma unroll
        for (int i = 0; i < kGroup / 2; ++i)
          load_transposed(keys[i],
                          shared_address(chunk.keys + turned<kChunkKeyWidth>(16 * square + row, first + 2 * i + half)));
#pragma unroll
        for (int part = 0; part < 3; ++part) {
#pragma unroll
          for (int i = 0; i < kGroup; ++i)
            multiply_add<Operand::bf16>(state_[first + i], parts[square].parts[part], keys[i / 2][i % 2 * 2],
                                        keys[i / 2][i % 2 * 2 + 1]);
        }
      }
    }
  }

  __device__ void store(const Tile (&out)[kChunkUnits], std::int64_t first, int count) const {
    const int token = lane_ / 4;
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; ++unit)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t two =
            portable::transposed(portable::packed<Operand::bf16>(out[unit][2 * half], out[unit][2 * half + 1]));
        if (8 * unit + token < count)
          *reinterpret_cast<std::uint32_t*>(delta_.out.row(first + 8 * unit + token, task_.head) + task_.first_column +
                                            column_ + 8 * half + lane_ % 4 * 2) = two;
      }
  }

  const Delta<Bf16>& delta_;
  const ChunkTask& task_;
  const int column_, lane_;
  Tile state_[kStateTiles];
};

}  // namespace octavo::cuda
