// Many rows of q or k whose halves are turned by each other, which is the usual rope of whole heads: a lane holds eight
// neighbours of the first half and the eight of the second that they turn with. So a warp has 2 to 8 heads of a token
// at once, rope stays within a lane and rotation crosses few; bytes go sixteen at a time. The angles of a block's
// tokens are taken once, into shared memory. Each number's arithmetic is that of kv_write_row.cuh, in its order.
#pragma once

#include "cuda/kv_write_row.cuh"

namespace octavo::cuda {

constexpr int kPairNumbers = 16;  // of a row, a lane

template <int kWide>
struct PairLanes {
  static constexpr int width = 32 * kWide, half = width / 2;
  static constexpr int lanes = width / kPairNumbers;  // of a row
  static constexpr int heads = 32 / lanes;            // of a warp at once
  // The lane's place in its row, which is the place of its first number in either half.
  static __device__ int number() { return static_cast<int>(threadIdx.x) % lanes * 8; }
  static __device__ int head() { return static_cast<int>(threadIdx.x) % 32 / lanes; }
};

// Cosine and sine of a row's angles: a lane's four pieces of two angles lie `lanes` pieces apart.
template <int kWide>
__device__ void take_angles(const WriteParams& p, WriteShared<kWide>& shared, int first, int rows) {
  using Lanes = PairLanes<kWide>;
  for (int n = threadIdx.x; n < rows * Lanes::half; n += kWriteThreads) {
    const int row = n / Lanes::half, pair = n % Lanes::half;
    const float position = static_cast<float>(p.positions[first + row]);
    float sine, cosine;
    sincosf(__fmul_rn(position, p.inv_freq[pair]), &sine, &cosine);
    shared.angles[row][(pair % 8 / 2 * Lanes::lanes + pair / 8) * 2 + pair % 2] =
        make_float2(__fmul_rn(cosine, p.rope_factor), __fmul_rn(sine, p.rope_factor));
  }
  __syncthreads();
}

template <int kWide>
__device__ void turn_pairs(const WriteShared<kWide>& shared, int row, float (&x)[kPairNumbers]) {
  using Lanes = PairLanes<kWide>;
  const auto* angles = reinterpret_cast<const float4*>(shared.angles[row]) + Lanes::number() / 8;
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const float4 two = angles[i / 2 * Lanes::lanes];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float cosine = j == 0 ? two.x : two.z, sine = j == 0 ? two.y : two.w;
      const float a = x[i + j], b = x[8 + i + j];
      x[i + j] = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
      x[8 + i + j] = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    }
  }
}

// rotate_write_row() of a whole head: sums of neighbours, of lanes, of halves.
template <int kWide>
__device__ void rotate_pairs(float norm, float (&x)[kPairNumbers]) {
#pragma unroll
  for (int half = 1; half < 8; half *= 2)
#pragma unroll
    for (int i = 0; i < kPairNumbers; i += 2 * half)
#pragma unroll
      for (int j = i; j < i + half; ++j) {
        const float a = x[j], b = x[j + half];
        x[j] = __fadd_rn(a, b);
        x[j + half] = __fsub_rn(a, b);
      }
#pragma unroll
  for (int step = 1; step < PairLanes<kWide>::lanes; step *= 2) {
    const float sign = (threadIdx.x & step) != 0 ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < kPairNumbers; ++i) x[i] = __fmaf_rn(x[i], sign, __shfl_xor_sync(~0u, x[i], step));
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float a = x[i], b = x[8 + i];
    x[i] = __fmul_rn(__fadd_rn(a, b), norm);
    x[8 + i] = __fmul_rn(__fsub_rn(a, b), norm);
  }
}

struct StoredPairs {
  uint4 halves[2];
};

// Heads [first_head, end_head) of the block's rows: visit(row, head, there, x) gets each turned; all lanes of a warp
// come along, also where they have no head.
template <int kWide, class Visit>
__device__ void for_turned_pairs(const WriteParams& p, WriteShared<kWide>& shared, const WriteRows& from, int first,
                                 int rows, int first_head, int end_head, const Visit& visit) {
  using Lanes = PairLanes<kWide>;
  constexpr int kAhead = 2;
  take_angles<kWide>(p, shared, first, rows);
  const int steps = (end_head - first_head + Lanes::heads - 1) / Lanes::heads * Lanes::heads;  // of heads, for a row
  const int of_lane = Lanes::head();
  StoredPairs stored[kAhead];
  const auto ask = [&](StoredPairs& to, int row, int head) {
    for (; head >= first_head + steps; head -= steps) row += kWriteWarps;
    head += of_lane;
    if (row >= rows || head >= end_head) return;
    const auto* at = reinterpret_cast<const uint4*>(from.data + (first + row) * from.token_stride +
                                                    head * from.head_stride + Lanes::number());
    to.halves[0] = at[0];
    to.halves[1] = at[Lanes::half / 8];
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    stored[i] = {};
    ask(stored[i], warp, first_head + i * Lanes::heads);
  }
#pragma unroll 1
  for (int row = warp; row < rows; row += kWriteWarps) {
#pragma unroll 1
    for (int head = first_head; head < first_head + steps; head += Lanes::heads) {
      float x[kPairNumbers];
      const auto* numbers = reinterpret_cast<const __nv_bfloat16*>(stored[0].halves);
#pragma unroll
      for (int i = 0; i < kPairNumbers; ++i) x[i] = __bfloat162float(numbers[i]);
#pragma unroll
      for (int i = 0; i + 1 < kAhead; ++i) stored[i] = stored[i + 1];
      ask(stored[kAhead - 1], row, head + kAhead * Lanes::heads);
      turn_pairs<kWide>(shared, row, x);
      if (p.rotation_block > 1) rotate_pairs<kWide>(p.rotation_norm, x);
      visit(row, head + of_lane, head + of_lane < end_head, x);
    }
  }
}

// Eight numbers of bfloat16.
__device__ inline uint4 bf16_of(const float* x) {
  uint4 eight;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&eight);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
  return eight;
}

template <int kWide>
__device__ void write_query_pairs(const WriteParams& p, int token, int head, bool there,
                                  const float (&x)[kPairNumbers]) {
  using Lanes = PairLanes<kWide>;
  if (!there) return;
  auto* to =
      reinterpret_cast<uint4*>(p.query + token * p.query_token_stride + head * p.query_head_stride + Lanes::number());
  to[0] = bf16_of(x);
  to[Lanes::half / 8] = bf16_of(x + 8);
}

}  // namespace octavo::cuda
