// Attention of the NVIDIA wing: what the verbs of CudaOps call. Work is put on the stream given and nothing waits.
//
// supports() is asked at start and names what cannot be served and what could; the other functions take for granted
// that it agreed. plan_attention() reads lengths on the device only and all memory is there from make_plan() on, so a
// step of any mix of lengths may be recorded and replayed. A deterministic plan chooses kernels whose results do not
// depend on what lies beside a row's own tokens.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/result.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

Status supports(const AttentionShape& shape);
QuerySpec query_spec(const KvFormat& format);

Result<std::unique_ptr<AttentionPlan>> make_plan(Device& device, const AttentionShape& shape, int max_seqs,
                                                 int max_tokens, bool deterministic);
void plan_attention(cudaStream_t stream, const PlanAttentionArgs& args);
void attention(cudaStream_t stream, const AttentionArgs& args);

}  // namespace octavo::cuda
