// The verbs of ops/ops.h written for reading: sums, norms and softmax in double, each output element in an order that
// depends on its own inputs only, so alone or in a batch, whole or in chunks, the bits are the same. The oracle of the
// conformance tests, and what a path without an own function uses (cpu/kernels.h). One file a verb.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu::plain {

void embed(ThreadPool& pool, const EmbedArgs& args);
void rms_norm(ThreadPool& pool, const RmsNormArgs& args);
void add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args);
void linear(ThreadPool& pool, const LinearArgs& args, bool deterministic);
void check_linear(const LinearArgs& args);
void head_linear(ThreadPool& pool, const HeadLinearArgs& args);
void check_head_linear(const HeadLinearArgs& args);
void grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic);
void route(ThreadPool& pool, const RouteArgs& args);
void rope(ThreadPool& pool, const RopeArgs& args);
void gated_activation(ThreadPool& pool, const GatedActivationArgs& args);
void kv_write(ThreadPool& pool, const KvWriteArgs& args);
void attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic);
void expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args);
void conv_update(ThreadPool& pool, const ConvUpdateArgs& args);
void delta_gates(ThreadPool& pool, const DeltaGatesArgs& args);
void delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic);
void gather(ThreadPool& pool, const GatherArgs& args);
void add(ThreadPool& pool, const AddArgs& args);
void scale(ThreadPool& pool, const ScaleArgs& args);
void absmax(ThreadPool& pool, const AbsmaxArgs& args);
void sample(ThreadPool& pool, const SampleArgs& args);
void log_probs(ThreadPool& pool, const LogProbsArgs& args);

}  // namespace octavo::cpu::plain
