// NullOps: arithmetic that does nothing. A model's forward run against it touches no number, and so measures how much
// memory its activations take (Arena::measuring).
#pragma once

#include <memory>

#include "ops/ops.h"

namespace octavo {

class NullOps : public Ops {
 public:
  // shapes: whose query_spec holds.
  explicit NullOps(const Ops& shapes) : shapes_(shapes) {}
  NullOps(const NullOps&) = delete;  // of a class made from this one it would be taken for the above

  void embed(const EmbedArgs&) override {}
  void rms_norm(const RmsNormArgs&) override {}
  void add_rms_norm(const AddRmsNormArgs&) override {}
  void linear(const LinearArgs&) override {}
  void head_linear(const HeadLinearArgs&) override {}
  void grouped_linear(const GroupedLinearArgs&) override {}
  void route(const RouteArgs&) override {}
  void rope(const RopeArgs&) override {}
  void gated_activation(const GatedActivationArgs&) override {}

  QuerySpec query_spec(const KvFormat& format) const override { return shapes_.query_spec(format); }
  void kv_write(const KvWriteArgs&) override {}
  Result<std::unique_ptr<AttentionPlan>> make_plan(const AttentionShape&, int, int) override {
    return std::make_unique<AttentionPlan>();
  }
  void plan_attention(const PlanAttentionArgs&) override {}
  void attention(const AttentionArgs&) override {}

  void conv_update(const ConvUpdateArgs&) override {}
  void delta_gates(const DeltaGatesArgs&) override {}
  void delta_rule(const DeltaRuleArgs&) override {}

  void gather(const GatherArgs&) override {}
  void add(const AddArgs&) override {}
  void scale(const ScaleArgs&) override {}
  void absmax(const AbsmaxArgs&) override {}

  void sample(const SampleArgs&) override {}
  void log_probs(const LogProbsArgs&) override {}

 private:
  const Ops& shapes_;
};

}  // namespace octavo
