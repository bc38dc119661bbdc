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

}  // namespace octavo::cuda
