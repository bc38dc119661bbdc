// Between what lies in memory and what a matrix product takes: rows of a packed weight as BF16.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/weight.h"

namespace octavo::cuda {

// Rows [first, first + count) of the part, scaled, as bf16 [count, in] at `to`.
void unpack_rows(cudaStream_t stream, const WeightPart& part, std::int64_t first, std::int64_t count, std::byte* to);

}  // namespace octavo::cuda
