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

// The best key of a row that is below `bound`; 0 if there is none. One block reads the row: what makes that quick is
// how much each thread asks for at once.
__device__ inline std::uint64_t best_below(const float* logits, std::int64_t vocab, std::uint64_t bound) {
  std::uint64_t best = 0;
  const auto look_at = [&](float logit, std::int64_t id) {
    const std::uint64_t key = rank_key(logit, static_cast<std::uint32_t>(id));
    if (key < bound && key > best) best = key;
  };
  const std::int64_t packed = reinterpret_cast<std::uintptr_t>(logits) % 16 == 0 ? vocab / 4 * 4 : 0;
#pragma unroll 2
  for (std::int64_t i = 4 * threadIdx.x; i < packed; i += 4 * kVocabularyThreads) {
    const float4 four = *reinterpret_cast<const float4*>(logits + i);
    look_at(four.x, i), look_at(four.y, i + 1), look_at(four.z, i + 2), look_at(four.w, i + 3);
  }
  for (std::int64_t i = packed + threadIdx.x; i < vocab; i += kVocabularyThreads) look_at(logits[i], i);
  return max_block(best, std::uint64_t{0});
}

}  // namespace octavo::cuda
