#include "cuda/ops.h"

#include "cuda/attention.h"
#include "cuda/few_rows.h"
#include "cuda/head_linear.h"
#include "cuda/kv_write.h"
#include "cuda/latent_layout.cuh"
#include "cuda/latent_write.h"
#include "cuda/verbs.h"

namespace octavo::cuda {

Result<std::unique_ptr<CudaOps>> CudaOps::create(CudaDevice& device, bool deterministic) {
  OCTAVO_TRY(auto linear, Linear::create(device, deterministic));
  OCTAVO_TRY(GroupedLinear grouped_linear, GroupedLinear::create(device, linear->scratch(), deterministic));
  return std::unique_ptr<CudaOps>(new CudaOps(device, std::move(linear), std::move(grouped_linear), deterministic));
}

void CudaOps::embed(const EmbedArgs& args) { cuda::embed(device_.stream(), args); }
void CudaOps::rms_norm(const RmsNormArgs& args) { cuda::rms_norm(device_.stream(), args); }
void CudaOps::add_rms_norm(const AddRmsNormArgs& args) { cuda::add_rms_norm(device_.stream(), args); }
void CudaOps::linear(const LinearArgs& args) { linear_->run(device_.stream(), args); }
void CudaOps::head_linear(const HeadLinearArgs& args) { cuda::head_linear(device_.stream(), args); }
void CudaOps::grouped_linear(const GroupedLinearArgs& args) { grouped_linear_.run(device_.stream(), args); }
void CudaOps::route(const RouteArgs& args) { cuda::route(device_.stream(), args); }
void CudaOps::rope(const RopeArgs& args) { cuda::rope(device_.stream(), args); }
void CudaOps::gated_activation(const GatedActivationArgs& args) { cuda::gated_activation(device_.stream(), args); }
void CudaOps::gated_linear(const GatedLinearArgs& args) {
  !deterministic_&& takes_gated_row(args) ? gated_row(device_.stream(), args) : Ops::gated_linear(args);
}

QuerySpec CudaOps::query_spec(const KvFormat& format) const { return cuda::query_spec(format); }
void CudaOps::kv_write(const KvWriteArgs& args) {
  is_latent(args.kv.format) ? latent_write(device_.stream(), args) : cuda::kv_write(device_.stream(), args);
}
Result<std::unique_ptr<AttentionPlan>> CudaOps::make_plan(const AttentionShape& shape, int max_seqs, int max_tokens) {
  return cuda::make_plan(device_, shape, max_seqs, max_tokens, deterministic_);
}
void CudaOps::plan_attention(const PlanAttentionArgs& args) {
  const BatchView batch = served(args.batch);
  cuda::plan_attention(device_.stream(), {batch, args.shape, args.plan});
}
void CudaOps::attention(const AttentionArgs& args) {
  const BatchView batch = served(args.batch);
  cuda::attention(device_.stream(), {args.query, args.kv, batch, args.plan, args.rule, args.out});
}

// The kernel of decodes splits the context and merges; that of chunks walks over it in one order, for one token too.
BatchView CudaOps::served(const BatchView& batch) const {
  BatchView view = batch;
  if (deterministic_) view.num_decodes = 0;
  return view;
}

void CudaOps::conv_update(const ConvUpdateArgs& args) { cuda::conv_update(device_.stream(), args); }
void CudaOps::delta_gates(const DeltaGatesArgs& args) { cuda::delta_gates(device_.stream(), args); }
void CudaOps::delta_rule(const DeltaRuleArgs& args) { cuda::delta_rule(device_.stream(), args, deterministic_); }

void CudaOps::gather(const GatherArgs& args) { cuda::gather(device_.stream(), args); }
void CudaOps::add(const AddArgs& args) { cuda::add(device_.stream(), args); }
void CudaOps::scale(const ScaleArgs& args) { cuda::scale(device_.stream(), args); }
void CudaOps::absmax(const AbsmaxArgs& args) { cuda::absmax(device_.stream(), args); }

void CudaOps::sample(const SampleArgs& args) { cuda::sample(device_.stream(), args); }
void CudaOps::log_probs(const LogProbsArgs& args) { cuda::log_probs(device_.stream(), args); }

}  // namespace octavo::cuda
