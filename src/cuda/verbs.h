// The verbs on the GPU as functions, one file a verb or a small family; attention, kv_write and matrix products have
// headers of their own. Each gives its work to the stream and returns.
// Shapes are checked here, on the host; what lies in device memory (ids, positions) cannot be.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::cuda {

void embed(cudaStream_t stream, const EmbedArgs& args);
void rms_norm(cudaStream_t stream, const RmsNormArgs& args);
void add_rms_norm(cudaStream_t stream, const AddRmsNormArgs& args);
void rope(cudaStream_t stream, const RopeArgs& args);
void gated_activation(cudaStream_t stream, const GatedActivationArgs& args);

void conv_update(cudaStream_t stream, const ConvUpdateArgs& args);
void delta_gates(cudaStream_t stream, const DeltaGatesArgs& args);
void delta_rule(cudaStream_t stream, const DeltaRuleArgs& args, bool deterministic);
void route(cudaStream_t stream, const RouteArgs& args);

void gather(cudaStream_t stream, const GatherArgs& args);
void add(cudaStream_t stream, const AddArgs& args);
void scale(cudaStream_t stream, const ScaleArgs& args);
void absmax(cudaStream_t stream, const AbsmaxArgs& args);

void sample(cudaStream_t stream, const SampleArgs& args);
void log_probs(cudaStream_t stream, const LogProbsArgs& args);

}  // namespace octavo::cuda
