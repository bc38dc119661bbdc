// A chunk of the delta rule in shared memory. With the sums G of the logarithms of decays within the chunk and the
// state S before it, all is products of matrices:
//   (I + A) N = beta (v - exp(G) k S)      A[i, j] = beta[i] (k[i] k[j]) exp(G[i] - G[j]), j < i
//   o = exp(G) q S + P N                   P[i, j] = (q[i] k[j]) exp(G[i] - G[j]), j <= i
//   S = exp(G[n - 1]) S + (k exp(G[n - 1] - G))^T N
// Keys and queries stay the bf16 numbers that came, exact on tensor cores; what makes them unit rows is a factor of
// their products. No exponent is positive. Tokens beyond the end are zeros that neither learn nor forget.
#pragma once

#include "cuda/delta_rule.cuh"
#include "cuda/portable/mma.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda {

using Bf16 = __nv_bfloat16;

constexpr int kChunkTokens = 32;
constexpr int kChunkKeyWidth = 128;
constexpr int kChunkColumns = 64;  // of the values, a block's
constexpr int kChunkMakers = 128;  // threads
constexpr int kChunkThreads = kChunkMakers + kChunkColumns / 16 * 32;
constexpr int kChunkStages = 3;
constexpr int kChunkPad = 40;  // floats of a row: those of four rows lie in all banks

struct DeltaChunk {
  alignas(16) Bf16 keys[kChunkTokens * kChunkKeyWidth];  // pieces of 16 bytes in turned order
  alignas(16) Bf16 queries[kChunkTokens * kChunkKeyWidth];
  alignas(16) Bf16 values[kChunkTokens * kChunkColumns];
  alignas(16) float solve[kChunkTokens][kChunkPad];   // -A; squares of 16 on the diagonal: the inverses of I + A
  alignas(16) float scores[kChunkTokens][kChunkPad];  // P
  // By token. The sums of logarithms are kept to more digits than a float has: differences of large ones count.
  alignas(16) float logs[kChunkTokens];
  float log_rests[kChunkTokens];
  float key_factors[kChunkTokens], query_factors[kChunkTokens];  // what makes rows unit ones, and scales queries
  float betas[kChunkTokens];
  float reads[kChunkTokens];   // -beta exp(G) of a unit key
  float gives[kChunkTokens];   // exp(G) of such a query
  float writes[kChunkTokens];  // exp(G[n - 1] - G) of a unit key

  __device__ float faded(int to, int from) const {  // exp(G[to] - G[from])
    return expf((logs[to] - logs[from]) + (log_rests[to] - log_rests[from]));
  }
};

// Where the piece of 8 numbers lies.
template <int kWidth>
__device__ inline int turned(int row, int piece) {
  return row * kWidth + (piece ^ row % 8) * 8;
}

// Barriers by number, 0 is __syncthreads'.
enum ChunkBarrier { kChunkFull = 1, kChunkEmpty = kChunkFull + kChunkStages, kChunkMade = kChunkEmpty + kChunkStages };
__device__ inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void announce(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The columns of one head and sequence that a block has.
struct ChunkTask {
  std::int64_t begin = 0, end = 0;  // tokens
  int head = 0, first_column = 0;
  __device__ int chunks() const { return static_cast<int>((end - begin + kChunkTokens - 1) / kChunkTokens); }
  __device__ std::int64_t first(int chunk) const { return begin + std::int64_t{chunk} * kChunkTokens; }
  __device__ int count(int chunk) const {
    return static_cast<int>(min(std::int64_t{kChunkTokens}, end - first(chunk)));
  }
};

}  // namespace octavo::cuda
