// How a row of the table is written: the shape named once, everything else follows from it.
#pragma once

#include "cuda/portable/prefill.cuh"

namespace octavo::cuda::portable {

constexpr int blocks_of_sm(int shared_bytes, int most) {
  const int fit = 224 * 1024 / (shared_bytes + 1024);
  return fit > most ? most : fit;
}

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow decode_row(const char* name) {
  constexpr int kShared = decode_shared_bytes(kWidth, kKey, kValue);
  return {name,
          Phase::decode,
          kWidth,
          kKey,
          kValue,
          kDecodeThreads,
          kShared,
          blocks_of_sm(kShared, 4),
          decode_kernel<kWidth, kKey, kValue>};
}

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow prefill_row(const char* name) {
  constexpr int kShared = prefill_shared_bytes(kWidth, kKey, kValue);
  return {
      name, Phase::prefill, kWidth, kKey, kValue, kPrefillThreads, kShared, 1, prefill_kernel<kWidth, kKey, kValue>};
}

}  // namespace octavo::cuda::portable
