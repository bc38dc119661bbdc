// kv_write of a latent cache: codes in their pages, as kv/codec.h has them bit for bit, and queries as rows of
// bfloat16. Latents and rope keys come ready, normed and turned. Shapes that supports() of cuda/attention.h refuses
// stop the process.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::cuda {

void latent_write(cudaStream_t stream, const KvWriteArgs& args);

}  // namespace octavo::cuda
