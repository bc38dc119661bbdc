// How a row of the table is written: the shape named once, everything else follows from it.
#pragma once

#include "cuda/portable/prefill.cuh"

namespace octavo::cuda::portable {

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow decode_row(const char* name) {
  return {.name = name,
          .phase = Phase::decode,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = kDecodeRows,
          .threads = kDecodeThreads,
          .shared_bytes = decode_ring_bytes<kWidth, kKey, kValue>(),
          .shared_bytes_a_row = decode_merge_bytes(kWidth, 1),
          .shared_bytes_at_least = DecodeRows<kWidth, kKey, kValue>::kQueryBytes,
          .kernel = decode_kernel<kWidth, kKey, kValue>};
}

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow prefill_row(const char* name) {
  using Shape = PrefillShape<kWidth, kKey, kValue>;
  return {.name = name,
          .phase = Phase::prefill,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = Shape::kRows,
          .threads = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .kernel = prefill_kernel<kWidth, kKey, kValue>};
}

}  // namespace octavo::cuda::portable
