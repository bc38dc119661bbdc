#include "engine/runner.h"

#include <algorithm>

#include "engine/null_ops.h"
#include "engine/request_check.h"

namespace octavo {
namespace {

constexpr const char* kPurpose = "the results of a step";
constexpr float kLogprobFloor = -9999.0f;  // JSON has no infinity

float floored(float logprob) { return logprob >= kLogprobFloor ? logprob : kLogprobFloor; }

template <class T>
std::vector<T> downloaded(Device& device, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  device.download(std::as_writable_bytes(std::span(values)), tensor.raw());
  return values;
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const RunnerParts& parts, const StepLimits& limits) {
  OCTAVO_TRY(auto inputs, StepInputs::create(parts.backend.device(), limits));
  auto runner = std::unique_ptr<Runner>(new Runner(parts, std::move(inputs)));
  for (const AttentionShape& shape : parts.group_shapes) {
    OCTAVO_TRY(auto plan, parts.backend.ops().make_plan(shape, limits.max_seqs, limits.max_tokens));
    runner->plans_.push_back(std::move(plan));
  }
  OCTAVO_TRY(runner->ensure_rows(limits.max_rows));
  return runner;
}

Step Runner::make_step(Ops& ops, Arena& arena) const {
  Step step{.ops = ops,
            .comm = parts_.backend.comm(),
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
                           .plan = plans_[group].get()});
  return step;
}

Result<std::size_t> Runner::measure(const RunnerParts& parts, const StepLimits& limits) {
  OCTAVO_TRY(auto inputs, StepInputs::create(parts.backend.device(), limits));
  Runner runner(parts, std::move(inputs));
  for (int group = 0; group < limits.num_groups; ++group) runner.plans_.push_back(std::make_unique<AttentionPlan>());
  runner.inputs_->stretch();
  NullOps nothing(parts.backend.ops());
  Arena arena = Arena::measuring();
  Step step = runner.make_step(nothing, arena);
  parts.model.forward(step);
  return arena.peak_bytes();
}

Status Runner::ensure_rows(int max_rows) {
  OCTAVO_TRY(inputs_->ensure_rows(max_rows));
  OCTAVO_TRY(allocate_outputs());
  OCTAVO_TRY(const std::size_t needed, measure(parts_, inputs_->limits()));
  if (needed <= activation_bytes_) return {};
  OCTAVO_TRY(arena_, Arena::reserve(parts_.backend.device(), needed));
  activation_bytes_ = needed;
  return {};
}

Status Runner::allocate_outputs() {
  Device& device = parts_.backend.device();
  const auto bytes = static_cast<std::size_t>(max_rows()) * sizeof(std::int32_t);
  OCTAVO_TRY(token_memory_.ensure(device, bytes, kPurpose));
  OCTAVO_TRY(chosen_memory_.ensure(device, bytes, kPurpose));
  OCTAVO_TRY(rank_memory_.ensure(device, bytes, kPurpose));
  OCTAVO_TRY(top_id_memory_.ensure(device, bytes * kMaxLogprobs, kPurpose));
  return top_value_memory_.ensure(device, bytes * kMaxLogprobs, kPurpose);
}

Result<StepResult> Runner::run(const StepPlan& plan) {
  Device& device = parts_.backend.device();
  Ops& ops = parts_.backend.ops();
  OCTAVO_TRY(inputs_->upload(plan));
  for (std::size_t group = 0; group < plans_.size(); ++group)
    ops.plan_attention({.batch = inputs_->batch(), .shape = parts_.group_shapes[group], .plan = *plans_[group]});
  const Arena::Scope scope(arena_);
  Step step = make_step(ops, arena_);
  const Tensor logits = parts_.model.forward(step);
  StepResult result;
  if (!plan.rows.empty()) {
    check(logits.size(0) == std::ssize(plan.rows), "the model gives a row of logits for each that was asked for");
    sample(plan, logits, result);
    log_probs(plan, logits, result);
    download_logits(plan, logits);
  }
  device.synchronize();
  return result;
}

void Runner::sample(const StepPlan& plan, const Tensor& logits, StepResult& result) {
  const auto sampled = static_cast<std::int64_t>(plan.num_sampled());
  if (sampled == 0) return;
  SampleArgs args = inputs_->sampling();
  args.logits = logits.rows(0, sampled);
  args.out = Tensor(token_memory_.data(), DType::i32, {sampled});
  parts_.backend.ops().sample(args);
  result.tokens = downloaded<std::int32_t>(parts_.backend.device(), args.out);
}

void Runner::log_probs(const StepPlan& plan, const Tensor& logits, StepResult& result) {
  const auto wanted = [](const PlannedRow& row) { return row.top >= 0; };
  if (std::none_of(plan.rows.begin(), plan.rows.end(), wanted)) return;
  result.logprobs.resize(plan.rows.size());
  std::vector<std::int32_t> known;  // of the extra rows; the sampled ones lie on the device already
  for (std::size_t row = plan.num_sampled(); row < plan.rows.size(); ++row)
    known.push_back(std::max(plan.rows[row].next_id, 0));
  if (!known.empty())
    parts_.backend.device().upload(token_memory_.data() + plan.num_sampled() * sizeof(std::int32_t),
                                   std::as_bytes(std::span(known)));
  for (std::size_t begin = 0; begin < plan.rows.size();) {
    std::size_t end = begin;
    while (end < plan.rows.size() && wanted(plan.rows[end])) ++end;
    if (end > begin) run_log_probs(plan, logits, begin, end, result);
    begin = std::max(end, begin + 1);
  }
}

// Rows [begin, end) all want some; they are asked for as many as the most demanding one.
void Runner::run_log_probs(const StepPlan& plan, const Tensor& logits, std::size_t begin, std::size_t end,
                           StepResult& result) {
  Device& device = parts_.backend.device();
  const auto first = static_cast<std::int64_t>(begin);
  const auto count = static_cast<std::int64_t>(end - begin);
  std::int64_t top = 0;
  for (std::size_t row = begin; row < end; ++row) top = std::max<std::int64_t>(top, plan.rows[row].top);
  top = std::min(top, logits.size(1));

  LogProbsArgs args;
  args.logits = logits.rows(first, count);
  args.ids = Tensor(token_memory_.data(), DType::i32, {first + count}).rows(first, count);
  args.chosen = Tensor(chosen_memory_.data(), DType::f32, {count});
  args.rank = Tensor(rank_memory_.data(), DType::i32, {count});
  if (top > 0) {
    args.top_ids = Tensor(top_id_memory_.data(), DType::i32, {count, top});
    args.top_values = Tensor(top_value_memory_.data(), DType::f32, {count, top});
  }
  parts_.backend.ops().log_probs(args);

  const auto chosen = downloaded<float>(device, args.chosen);
  const auto rank = downloaded<std::int32_t>(device, args.rank);
  const auto top_ids = top > 0 ? downloaded<std::int32_t>(device, args.top_ids) : std::vector<std::int32_t>();
  const auto top_values = top > 0 ? downloaded<float>(device, args.top_values) : std::vector<float>();
  for (std::size_t i = 0; i < end - begin; ++i) {
    TokenLogprobs& out = result.logprobs[begin + i];
    out.logprob = floored(chosen[i]);
    out.rank = rank[i];
    const auto wanted = std::min<std::int64_t>(plan.rows[begin + i].top, top);
    for (std::int64_t j = 0; j < wanted; ++j) {
      const auto at = i * static_cast<std::size_t>(top) + static_cast<std::size_t>(j);
      out.top.emplace_back(top_ids[at], floored(top_values[at]));
    }
  }
}

void Runner::download_logits(const StepPlan& plan, const Tensor& logits) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  for (std::size_t row = plan.num_sampled(); row < plan.rows.size(); ++row)
    if (float* to = plan.rows[row].logits_to)
      parts_.backend.device().download(std::as_writable_bytes(std::span(to, vocab)),
                                       logits.rows(static_cast<std::int64_t>(row), 1).raw());
}

}  // namespace octavo
