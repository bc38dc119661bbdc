// What a GPU can do at best, measured: reading memory, and large matrix products in bfloat16 and in 8 bits through
// cuBLASLt. Numbers are random: products of zeros draw less power and run faster than any real ones.
#pragma once

#include "cuda/device.h"
#include "ops/kernel_row.h"

namespace octavo::cuda {

Result<Ceilings> measure_ceilings(CudaDevice& device);

}  // namespace octavo::cuda
