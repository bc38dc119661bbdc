#include "cpu/ops.h"

#include "cpu/attention_plan.h"
#include "cpu/lane_weight.h"
#include "cpu/latent_form.h"
#include "cpu/plain.h"

namespace octavo::cpu {

Status CpuOps::prepare(Weight& weight, DType compute, Device& device) {
  if (isa_ < Isa::avx512vnni || compute != DType::bf16 || !LaneWeight::takes(weight)) return {};
  OCTAVO_TRY(weight.form, LaneWeight::make(pool_, device, weight));
  return {};
}

void CpuOps::embed(const EmbedArgs& args) { plain::embed(pool_, args); }
void CpuOps::rms_norm(const RmsNormArgs& args) { kernels_.rms_norm(pool_, args); }
void CpuOps::add_rms_norm(const AddRmsNormArgs& args) { kernels_.add_rms_norm(pool_, args); }
void CpuOps::linear(const LinearArgs& args) { kernels_.linear(pool_, args, deterministic_); }
void CpuOps::head_linear(const HeadLinearArgs& args) { kernels_.head_linear(pool_, args); }
void CpuOps::grouped_linear(const GroupedLinearArgs& args) { kernels_.grouped_linear(pool_, args, deterministic_); }
void CpuOps::route(const RouteArgs& args) { plain::route(pool_, args); }
void CpuOps::rope(const RopeArgs& args) { kernels_.rope(pool_, args); }
void CpuOps::gated_activation(const GatedActivationArgs& args) { kernels_.gated_activation(pool_, args); }

// The processor rounds no query: float32 as it comes from norm, rope and rotation.
QuerySpec CpuOps::query_spec(const KvFormat&) const { return QuerySpec{}; }
void CpuOps::kv_write(const KvWriteArgs& args) { kernels_.kv_write(pool_, args); }
Result<std::unique_ptr<AttentionPlan>> CpuOps::make_plan(const AttentionShape&, int, int) {
  return std::unique_ptr<AttentionPlan>(std::make_unique<CpuAttentionPlan>());
}
void CpuOps::plan_attention(const PlanAttentionArgs& args) {
  static_cast<CpuAttentionPlan&>(args.plan).make(args, pool_.num_threads());
}
void CpuOps::attention(const AttentionArgs& args) { kernels_.attention(pool_, args, deterministic_); }
// The absorbed form alone gives a token the same bits however its sequence was cut.
std::int64_t CpuOps::absorbed_rows(const AbsorbedRowsArgs& args) const {
  return deterministic_ ? args.batch.num_tokens : cheaper_absorbed_rows(args);
}
void CpuOps::expanded_attention(const ExpandedAttentionArgs& args) { kernels_.expanded_attention(pool_, args); }

void CpuOps::conv_update(const ConvUpdateArgs& args) { kernels_.conv_update(pool_, args); }
void CpuOps::delta_gates(const DeltaGatesArgs& args) { plain::delta_gates(pool_, args); }
void CpuOps::delta_rule(const DeltaRuleArgs& args) { kernels_.delta_rule(pool_, args, deterministic_); }

void CpuOps::gather(const GatherArgs& args) { plain::gather(pool_, args); }
void CpuOps::add(const AddArgs& args) { plain::add(pool_, args); }
void CpuOps::scale(const ScaleArgs& args) { plain::scale(pool_, args); }
void CpuOps::absmax(const AbsmaxArgs& args) { plain::absmax(pool_, args); }

void CpuOps::sample(const SampleArgs& args) { plain::sample(pool_, args); }
void CpuOps::log_probs(const LogProbsArgs& args) { plain::log_probs(pool_, args); }

}  // namespace octavo::cpu
