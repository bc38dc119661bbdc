// CudaOps: the verbs on one GPU. Every verb gives its work to the device's stream and returns; what a verb needs
// besides its arguments is reserved when this is made.
#pragma once

#include <memory>

#include "cuda/device.h"
#include "cuda/grouped_linear.h"
#include "cuda/linear.h"
#include "ops/ops.h"

namespace octavo::cuda {

class CudaOps final : public Ops {
 public:
  static Result<std::unique_ptr<CudaOps>> create(CudaDevice& device, bool deterministic);

  void embed(const EmbedArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void add_rms_norm(const AddRmsNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void head_linear(const HeadLinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void route(const RouteArgs& args) override;
  void rope(const RopeArgs& args) override;
  void gated_activation(const GatedActivationArgs& args) override;
  void gated_linear(const GatedLinearArgs& args) override;

  QuerySpec query_spec(const KvFormat& format) const override;
  void kv_write(const KvWriteArgs& args) override;
  Result<std::unique_ptr<AttentionPlan>> make_plan(const AttentionShape& shape, int max_seqs, int max_tokens) override;
  void plan_attention(const PlanAttentionArgs& args) override;
  void attention(const AttentionArgs& args) override;

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
  CudaOps(CudaDevice& device, std::unique_ptr<Linear> linear, GroupedLinear grouped_linear, bool deterministic)
      : device_(device),
        linear_(std::move(linear)),
        grouped_linear_(std::move(grouped_linear)),
        deterministic_(deterministic) {}
  BatchView served(const BatchView& batch) const;

  CudaDevice& device_;
  std::unique_ptr<Linear> linear_;
  GroupedLinear grouped_linear_;
  const bool deterministic_;
};

}  // namespace octavo::cuda
