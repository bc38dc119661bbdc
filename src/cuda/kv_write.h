// kv_write of the NVIDIA wing: one launch from the projection's rows to codes in their pages and queries in their form,
// for every kind of cache. The arithmetic that decides a code is that of kv/codec.h, bit for bit.
//
// Rows are bfloat16. Shapes that supports() of cuda/attention.h refuses stop the process.
#pragma once

#include <cuda_runtime_api.h>

#include "kv/view.h"
#include "ops/ops.h"

namespace octavo::cuda {

// The scales of one segment, a head each, where its grain has them outside pages; otherwise null.
const float* given_scales(const KvView& kv, int segment);

void kv_write(cudaStream_t stream, const KvWriteArgs& args);

}  // namespace octavo::cuda
