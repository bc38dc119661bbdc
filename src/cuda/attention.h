// Attention of the NVIDIA wing: what the verbs of CudaOps call. Work is put on the stream given and nothing waits.
//
// supports() is asked at start and names what cannot be served and what could; the other functions take for granted
// that it agreed. plan_attention() reads lengths on the device only, so a step of any mix of lengths may be replayed;
// it may allocate the first time it sees a larger shape, so it stands outside of recordings.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/result.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

Status supports(const AttentionShape& shape);
QuerySpec query_spec(const KvFormat& format);

// max_tokens: the most token rows of a step.
std::unique_ptr<AttentionPlan> make_plan(Device& device, int max_seqs, int max_tokens);
void plan_attention(cudaStream_t stream, const PlanAttentionArgs& args);
void attention(cudaStream_t stream, const AttentionArgs& args);

}  // namespace octavo::cuda
