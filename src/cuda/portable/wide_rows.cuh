// Rows of the table whose kernels are those of wide heads.
#pragma once

#include "cuda/portable/wide.cuh"

namespace octavo::cuda::portable {

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow wide_decode_row(const char* name) {
  return {.name = name,
          .phase = Phase::decode,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = kDecodeRows,
          .threads = kWideThreads,
          .shared_bytes = WideShared<kWidth, kKey, kValue, kDecodeRows>::kBytes,
          .max_splits = kMaxWideSplits,
          .kernel = wide_decode_kernel<kWidth, kKey, kValue>};
}

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow wide_prefill_row(const char* name) {
  return {.name = name,
          .phase = Phase::prefill,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = kWideTileRows,
          .threads = kWideThreads,
          .shared_bytes = WideShared<kWidth, kKey, kValue, kWideTileRows>::kBytes,
          .kernel = wide_prefill_kernel<kWidth, kKey, kValue>};
}

}  // namespace octavo::cuda::portable
