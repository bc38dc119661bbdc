// TimedBackend: a backend whose verbs are another's, each waited for and noted in a timeline. The sums are the same; a
// step takes longer by the waiting, which the gaps show.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/backend.h"
#include "tool/timed_comm.h"
#include "tool/verb_timeline.h"

namespace octavo {

class TimedOps final : public Ops {
 public:
  TimedOps(Ops& inner, Device& device, VerbTimeline& timeline) : inner_(inner), device_(device), timeline_(timeline) {}

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
  QuerySpec query_spec(const KvFormat& format) const override { return inner_.query_spec(format); }
  void kv_write(const KvWriteArgs& args) override;
  Result<std::unique_ptr<AttentionPlan>> make_plan(const AttentionShape& shape, int max_seqs, int max_tokens) override {
    return inner_.make_plan(shape, max_seqs, max_tokens);
  }
  void plan_attention(const PlanAttentionArgs& args) override;
  void attention(const AttentionArgs& args) override;
  std::int64_t absorbed_rows(const AbsorbedRowsArgs& args) const override { return inner_.absorbed_rows(args); }
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
  template <class Work>
  void timed(VerbCall call, const Work& work) {
    timeline_.time(device_, std::move(call), work);
  }
  template <class Work>
  void timed(const char* verb, std::int64_t bytes, const Work& work) {
    timed({.verb = verb, .bytes = bytes}, work);
  }

  void begin_step(const BatchView& batch);
  // Over the sequences of rows [first, end), all of whose tokens take part.
  std::int64_t tokens_seen(const AttentionRule& rule, std::int64_t first, std::int64_t end) const;
  std::int64_t keys_seen(const AttentionRule& rule, std::int64_t first, std::int64_t end) const;

  Ops& inner_;
  Device& device_;
  VerbTimeline& timeline_;
  std::vector<std::int32_t> contexts_;  // [num_seqs] of the step
  std::vector<std::int32_t> starts_;    // [num_seqs + 1]: its query_start
};

class TimedBackend final : public Backend {
 public:
  TimedBackend(std::unique_ptr<Backend> inner, VerbTimeline& timeline)
      : inner_(std::move(inner)),
        ops_(inner_->ops(), inner_->device(), timeline),
        comm_(inner_->comm(), inner_->device(), timeline) {}
  Device& device() override { return inner_->device(); }
  Ops& ops() override { return ops_; }
  Comm& comm() override { return comm_; }
  Status supports(const AttentionShape& shape) const override { return inner_->supports(shape); }
  Status prepare(Weight& weight, DType compute) override { return inner_->prepare(weight, compute); }
  Status supports_states() const override { return inner_->supports_states(); }
  Status supports_compute(DType compute) const override { return inner_->supports_compute(compute); }
  int recorded_batch(int) const override { return 0; }  // a replay is one piece: its verbs could not be told apart
  Result<Ceilings> ceilings() override { return inner_->ceilings(); }

 private:
  std::unique_ptr<Backend> inner_;
  TimedOps ops_;
  TimedComm comm_;
};

}  // namespace octavo
