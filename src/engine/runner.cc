#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engine/null_ops.h"

namespace octavo {

Result<std::unique_ptr<Runner>> Runner::create(const RunnerParts& parts, const StepLimits& limits) {
  OCTAVO_TRY(auto inputs, StepInputs::create(parts.backend.device(), limits));
  auto runner = std::unique_ptr<Runner>(new Runner(parts, std::move(inputs)));
  OCTAVO_TRY(runner->zero_, parts.backend.device().allocate(sizeof(std::int32_t), "an index"));
  parts.backend.device().fill_zero(runner->zero_.data(), runner->zero_.size());
  for (const AttentionShape& shape : parts.group_shapes) {
    OCTAVO_TRY(auto plan, parts.backend.ops().make_plan(shape, limits.max_seqs, limits.max_tokens));
    runner->plans_.push_back(std::move(plan));
  }
  OCTAVO_TRY(runner->ensure_rows(limits.max_rows));
  return runner;
}

Step Runner::make_step(Ops& ops, Comm& comm, Arena& arena) const {
  Step step{.ops = ops,
            .comm = comm,
            .arena = arena,
            .store = parts_.store,
            .compute = parts_.compute,
            .batch = inputs_->batch(),
            .ids = inputs_->ids(),
            .sampled_rows = inputs_->sampled_rows(),
            .groups = {}};
  for (std::size_t group = 0; group < plans_.size(); ++group)
    step.groups.push_back({.slots = inputs_->slots(static_cast<int>(group)),
                           .page_table = inputs_->page_table(static_cast<int>(group)),
                           .plan = plans_[group].get(),
                           .records = Tensor()});
  for (int group = 0; group < inputs_->limits().num_state_groups; ++group)
    step.groups.push_back(
        {.slots = Tensor(), .page_table = Tensor(), .plan = nullptr, .records = inputs_->records(group)});
  return step;
}

Result<std::size_t> Runner::measure(const RunnerParts& parts, const StepLimits& limits) {
  OCTAVO_TRY(auto inputs, StepInputs::create(parts.backend.device(), limits));
  Runner runner(parts, std::move(inputs));
  for (int group = 0; group < limits.num_groups; ++group) runner.plans_.push_back(std::make_unique<AttentionPlan>());
  runner.inputs_->stretch();
  NullOps nothing(parts.backend.ops());
  NullComm nobody(parts.backend.comm());
  Arena arena = Arena::measuring();
  Step step = runner.make_step(nothing, nobody, arena);
  parts.model.forward(step);
  return arena.peak_bytes();
}

Status Runner::ensure_rows(int max_rows) {
  recorded_.clear();  // they know where inputs and activations were
  OCTAVO_TRY(inputs_->ensure_rows(max_rows));
  OCTAVO_TRY(outputs_.ensure_rows(this->max_rows()));
  OCTAVO_TRY(const std::size_t needed, measure(parts_, inputs_->limits()));
  if (needed <= activation_bytes_) return {};
  OCTAVO_TRY(arena_, Arena::reserve(parts_.backend.device(), needed));
  activation_bytes_ = needed;
  return {};
}

Status Runner::record_decodes() {
  // Where a call returns with its work done, a recording is that work itself: there is nothing to prepare.
  if (!parts_.backend.device().asynchronous()) return {};
  const int most = inputs_->limits().max_seqs;
  for (int num_seqs = 1; num_seqs <= most; ++num_seqs) {
    const int batch = recorded_batch(num_seqs);
    if (batch == 0 || recorded_.contains(batch)) continue;
    OCTAVO_TRY(inputs_->upload(StepPlan{}, batch));
    replay(batch);
  }
  parts_.backend.device().synchronize();
  return parts_.backend.device().status();
}

// The backend's batch, or the largest that the limits allow.
int Runner::recorded_batch(int num_seqs) const {
  const StepLimits& limits = inputs_->limits();
  const int most = std::min({limits.max_seqs, limits.max_tokens, limits.max_rows});
  const int batch = std::min(parts_.backend.recorded_batch(num_seqs), most);
  return batch >= num_seqs ? batch : 0;
}

int Runner::recorded_batch(const StepPlan& plan) const {
  const std::size_t num_seqs = plan.sequences.size();
  const bool draws_each = plan.num_sampled() == num_seqs && plan.rows.size() == num_seqs;
  if (static_cast<std::size_t>(plan.num_decodes) != num_seqs || !draws_each) return 0;
  return recorded_batch(plan.num_decodes);
}

// Pages as the bytes that they are; records part by part, where a factor of one changes no bit.
void Runner::copy_pages(const StepPlan& plan) {
  const Tensor first(zero_.data(), DType::i32, {1});
  for (const PageCopy& copy : plan.copies) {
    const CacheGroup& group = parts_.store.spec().groups[static_cast<std::size_t>(copy.group)];
    for (const LayerCache& layer : group.layers) {
      if (group.lifetime != Lifetime::state) {
        const Tensor pages = parts_.store.pages(layer.layer);
        parts_.backend.ops().gather({.x = pages.rows(copy.from, 1), .index = first, .out = pages.rows(copy.to, 1)});
        continue;
      }
      for (int part = 0; part < std::ssize(group.state_parts); ++part) {
        const Tensor records = parts_.store.state(layer.layer, part);
        parts_.backend.ops().scale(
            {.x = records.rows(copy.from, 1), .weight = Tensor(), .out = records.rows(copy.to, 1)});
      }
    }
  }
}

// All that a recording holds. Its inputs lie in device memory, where upload() has brought them.
Tensor Runner::forward() {
  Ops& ops = parts_.backend.ops();
  const BatchView batch = inputs_->batch();
  ops.gather(inputs_->id_gathering());
  for (std::size_t group = 0; group < plans_.size(); ++group)
    ops.plan_attention({.batch = batch, .shape = parts_.group_shapes[group], .plan = *plans_[group]});
  const Arena::Scope scope(arena_);
  Step step = make_step(ops, parts_.backend.comm(), arena_);
  return parts_.model.forward(step);
}

Tensor Runner::replay(int num_seqs) {
  const auto [place, is_new] = recorded_.try_emplace(num_seqs);
  Recorded& recorded = place->second;
  if (recorded.recording) {
    recorded.recording->replay();
    return recorded.logits;
  }
  if (!is_new) return forward();
  auto recording = parts_.backend.device().record([this, &recorded] { recorded.logits = forward(); });
  if (recording)
    recorded.recording = *std::move(recording);
  else
    log::warn("decode steps are not replayed", {{"sequences", num_seqs}, {"why", recording.error().message()}});
  return recorded.logits;  // recording runs the work too, even where it fails
}

Result<Tensor> Runner::compute(const StepPlan& plan) {
  const int batch = recorded_batch(plan);
  OCTAVO_TRY(inputs_->upload(plan, batch));
  copy_pages(plan);
  const Tensor logits = batch > 0 ? replay(batch) : forward();
  check(plan.rows.empty() || logits.size(0) == std::max<std::int64_t>(batch, std::ssize(plan.rows)),
        "the model gives a row of logits for each that was asked for");
  return logits;
}

Result<LaunchedStep> Runner::launch(const StepPlan& plan) {
  OCTAVO_TRY(const Tensor logits, compute(plan));
  return outputs_.launch(plan, logits, *inputs_);
}

Status Runner::follow(const StepPlan& plan) {
  OCTAVO_TRY(const Tensor logits, compute(plan));
  if (!parts_.backend.device().asynchronous()) return {};
  return outputs_.draw(plan, logits, *inputs_);
}

Result<StepResult> Runner::collect(const StepPlan& plan, LaunchedStep step) {
  StepResult result = step.collect(plan);
  OCTAVO_TRY(status());
  return result;
}

}  // namespace octavo
