// Products of few rows with a weight in its packed form, at its exact values with sums in float32: reading the weight
// is all the time there is. few_rows() takes at most kMaxFewRows rows of BF16 whose rows are aligned; any_rows() takes
// every shape and dtype, and is slow.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::cuda {

constexpr std::int64_t kMaxFewRows = 8;

struct RowsProduct {
  Tensor x;                // bf16 or f32 [rows, in]
  const WeightPart& part;  // [out, in]
  Tensor bias;             // f32 [out] or empty
  Tensor out;              // bf16 or f32 [rows, out]
};

bool takes_few_rows(const RowsProduct& product);
void few_rows(cudaStream_t stream, const RowsProduct& product);
void any_rows(cudaStream_t stream, const RowsProduct& product);

}  // namespace octavo::cuda
