// Logits of one row as a block sees them: keys whose order is that of the logits, ties to the lowest id, NaN as -inf.
#pragma once

#include <cstdint>

#include "cuda/reduce.cuh"

namespace octavo::cuda {

constexpr int kVocabularyThreads = 1024;

// Orders as the logit does; -0 is +0, a NaN is -inf.
__device__ inline std::uint32_t order_of(float logit) {
  if (isnan(logit)) logit = -INFINITY;
  const std::uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float logit_of(std::uint32_t order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7FFFFFFFu : ~order);
}
constexpr std::uint32_t kBannedOrder = 0x007FFFFFu;  // of -inf

// Greater for a better token: by logit, then by lower id.
__device__ inline std::uint64_t rank_key(float logit, std::uint32_t id) {
  return static_cast<std::uint64_t>(order_of(logit)) << 32 | (0xFFFFFFFFu - id);
}
__device__ inline std::uint32_t id_of(std::uint64_t key) { return 0xFFFFFFFFu - static_cast<std::uint32_t>(key); }

// The best key of a row that is below `bound`; 0 if there is none.
__device__ inline std::uint64_t best_below(const float* logits, std::int64_t vocab, std::uint64_t bound) {
  std::uint64_t best = 0;
  for (std::int64_t i = threadIdx.x; i < vocab; i += kVocabularyThreads) {
    const std::uint64_t key = rank_key(logits[i], static_cast<std::uint32_t>(i));
    if (key < bound && key > best) best = key;
  }
  return max_block(best, std::uint64_t{0});
}

}  // namespace octavo::cuda
