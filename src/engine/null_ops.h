// NullOps and NullComm: arithmetic and collectives that do nothing. A model's forward run against them touches no
// number and waits for no rank, and so measures how much memory its activations take (Arena::measuring).
#pragma once

#include <memory>

#include "ops/comm.h"
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
  void expanded_attention(const ExpandedAttentionArgs&) override {}

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

class NullComm final : public Comm {
 public:
  explicit NullComm(const Comm& of) : rank_(of.rank()), size_(of.size()) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const Tensor&) override {}
  void all_gather_columns(const Tensor&, const Tensor&) override {}
  void give_up() override {}
  Status restore() override { return {}; }

 private:
  int rank_;
  int size_;
};

}  // namespace octavo
