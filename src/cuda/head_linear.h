// head_linear of the NVIDIA wing: bfloat16 inputs go through the tensor core, and numbers of a weight are rounded once
// to bfloat16, as linear's are; float32 inputs are multiplied as they are. A row's sums are made in one order, whatever
// tokens lie beside it. Refuses weights of several parts.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::cuda {

void head_linear(cudaStream_t stream, const HeadLinearArgs& args);

}  // namespace octavo::cuda
