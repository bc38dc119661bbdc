// Between what lies in memory and what a matrix product takes: rows of a packed weight as BF16, and float32 results
// with their bias added, rounded once.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/weight.h"

namespace octavo::cuda {

// Rows [first, first + count) of the part, scaled, as bf16 [count, in] at `to`.
void unpack_rows(cudaStream_t stream, const WeightPart& part, std::int64_t first, std::int64_t count, std::byte* to);

// out = sums + bias. sums f32 [rows, n] contiguous, bias f32 [n], out bf16 or f32 with strided rows.
void add_bias(cudaStream_t stream, const float* sums, const Tensor& bias, const Tensor& out);

}  // namespace octavo::cuda
