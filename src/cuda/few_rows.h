// Products of few rows with weights in their packed form, at their exact values with sums in float32: reading the
// weights is all the time there is. few_rows() takes at most kMaxFewRows rows of BF16 whose rows are aligned, and up to
// kMaxStacked parts of one dtype in a launch; it leaves to one_row() and tile_rows() what those are faster at. Several
// rows with plain weights in bf16 go to the library (cuda/linear.h), which is faster.
// any_rows() takes every shape and dtype, and is slow.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string_view>

#include "cuda/quantize.h"
#include "ops/ops.h"

namespace octavo::cuda {

constexpr std::int64_t kMaxFewRows = 8;

struct RowsProduct {
  Tensor x;                           // bf16 or f32 [rows, in]
  std::span<const WeightPart> parts;  // [out, in] each
  Tensor bias;                        // f32 [all out] or empty
  Tensor out;                         // bf16 or f32 [rows, all out]
};

bool takes_few_rows(const Tensor& x);
bool takes_few_rows(const WeightPart& part);
void few_rows(cudaStream_t stream, const RowsProduct& product);
// Which kernels few_rows() takes for it: "one_row", "tile_rows" or "few_rows".
std::string_view few_rows_kind(std::int64_t rows, const WeightPart& part);

// One row of bf16 and e4m3, unless scales are a block's.
bool takes_one_row(std::int64_t rows, const WeightPart& part);
void one_row(cudaStream_t stream, const RowsProduct& product);
// The same for a gate and what it gates, two parts alike, with the activation in the same launch.
bool takes_gated_row(const GatedLinearArgs& args);
void gated_row(cudaStream_t stream, const GatedLinearArgs& args);

// On the tensor cores: several rows of e4m3, and one where scales are a block's, unless these cut a tile.
bool takes_tile_rows(std::int64_t rows, const WeightPart& part);
void tile_rows(cudaStream_t stream, const RowsProduct& product);

void any_rows(cudaStream_t stream, const RowsProduct& product);

}  // namespace octavo::cuda
