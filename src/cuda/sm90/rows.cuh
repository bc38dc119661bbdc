// How a row of the table is written: the shape named once, everything else follows from it.
#pragma once

#include "cuda/sm90/decode.cuh"
#include "cuda/sm90/prefill.cuh"
#include "cuda/sm90/rows.h"

namespace octavo::cuda::sm90 {

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow decode_row(const char* name) {
  using Shape = DecodeShape<kWidth, kKey, kValue>;
  return {.name = name,
          .phase = portable::Phase::decode,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = kDecodeHeads,
          .threads = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .products_in_8_bits = Shape::kEightBit,
          .kernel = decode_kernel<Shape>};
}

template <int kWidth, KvElem kKey, KvElem kValue>
constexpr KernelRow prefill_row(const char* name) {
  using Shape = PrefillShape<kWidth, kKey, kValue>;
  return {.name = name,
          .phase = portable::Phase::prefill,
          .width = kWidth,
          .key = kKey,
          .value = kValue,
          .tile_rows = Shape::kRows,
          .threads = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .stays = true,
          .piece_floats = Shape::kPieceFloats,
          .products_in_8_bits = Shape::kEightBit,
          .kernel = prefill_kernel<Shape>,
          .join = join_kernel<Shape>,
          .join_threads = Shape::kThreads - 128};
}

}  // namespace octavo::cuda::sm90
