// CpuOps: the verbs on the processor. Chooses the function of the path for each verb and lends it the threads.
#pragma once

#include "base/parallel.h"
#include "cpu/ceilings.h"
#include "cpu/kernels.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cpu {

class CpuOps final : public Ops {
 public:
  CpuOps(int num_threads, Isa isa, bool deterministic)
      : pool_(num_threads), isa_(isa), kernels_(kernels_for(isa)), deterministic_(deterministic) {}

  // Backend::prepare().
  Status prepare(Weight& weight, DType compute, Device& device);
  Ceilings ceilings(std::size_t available_bytes) { return measure_ceilings(pool_, isa_, available_bytes); }

  void embed(const EmbedArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void add_rms_norm(const AddRmsNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void head_linear(const HeadLinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void route(const RouteArgs& args) override;
  void rope(const RopeArgs& args) override;
  void gated_activation(const GatedActivationArgs& args) override;

  QuerySpec query_spec(const KvFormat& format) const override;
  void kv_write(const KvWriteArgs& args) override;
  Result<std::unique_ptr<AttentionPlan>> make_plan(const AttentionShape& shape, int max_seqs, int max_tokens) override;
  void plan_attention(const PlanAttentionArgs& args) override;
  void attention(const AttentionArgs& args) override;
  std::int64_t absorbed_rows(const AbsorbedRowsArgs& args) const override;
  void expanded_attention(const ExpandedAttentionArgs& args) override;

  void conv_update(const ConvUpdateArgs& args) override;
  void delta_gates(const DeltaGatesArgs& args) override;
  void delta_rule(const DeltaRuleArgs& args) override;

  void gather(const GatherArgs& args) override;
  void add(const AddArgs& args) override;
  void scale(const ScaleArgs& args) override;
  void absmax(const AbsmaxArgs& args) override;

  void sample(const SampleArgs& args) override;
  void log_probs(const LogProbsArgs& args) override;

 private:
  ThreadPool pool_;
  const Isa isa_;
  const Kernels& kernels_;
  const bool deterministic_;
};

}  // namespace octavo::cpu
