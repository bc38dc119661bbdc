// Random numbers made where they are needed: what make_random_rows() gives on the host, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/random_matrix.h"

namespace octavo::cuda {

void fill_random(cudaStream_t stream, std::byte* to, const RandomMatrix& matrix);

}  // namespace octavo::cuda
