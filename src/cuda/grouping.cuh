// What the kernels of grouped_linear read: the experts of a layer, and which of them each row chose.
#pragma once

#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

struct Grouping {
  const PartView* experts = nullptr;  // [experts, parts]
  const std::int32_t* ids = nullptr;  // i32 [tokens, k]
  const float* weights = nullptr;     // f32 [tokens, k] or null
  const float* bias = nullptr;        // f32 [experts, out] or null
  std::int64_t out = 0;
  int k = 1;
  int parts = 1;
  bool row_of_choice = false;  // x has a row for each choice

  __device__ std::int64_t input_of(std::int64_t choice) const { return row_of_choice ? choice : choice / k; }
  // The part that holds that row of an expert; `row` becomes the part's own.
  __device__ const PartView& part_of(std::int64_t expert, std::int64_t& row) const {
    const PartView* part = experts + expert * parts;
    for (; row >= part->rows; ++part) row -= part->rows;
    return *part;
  }
};

// e2m1 numbers have the powers of two of e8m0 where others have f32.
inline PartView expert_view_of(const WeightPart& part) {
  if (part.values.dtype() != DType::e2m1) return view_of(part);
  octavo::check(part.scale.dtype() == DType::e8m0 && part.block_rows == 1, "e2m1 numbers have a scale for each 32");
  WeightPart plain = part;
  plain.grain = ScaleGrain::none;
  PartView view = view_of(plain);
  view.grain = ScaleGrain::block;
  view.scale = reinterpret_cast<const float*>(part.scale.raw());
  view.scale_stride = part.scale.stride(0);
  view.block_rows = part.block_rows;
  view.block_cols = part.block_cols;
  return view;
}

__device__ inline float expert_scale_at(const PartView& part, std::int64_t row, std::int64_t column) {
  if (part.dtype != DType::e2m1) return part.scale_at(row, column);
  return f32_from_e8m0(
      reinterpret_cast<const std::uint8_t*>(part.scale)[row * part.scale_stride + column / part.block_cols]);
}

}  // namespace octavo::cuda
