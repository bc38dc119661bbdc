#include "engine/step_outputs.h"

#include <algorithm>
#include <cstring>

#include "engine/request_check.h"

namespace octavo {
namespace {

constexpr const char* kResultPurpose = "the results of a step";
constexpr float kLogprobFloor = -9999.0f;  // JSON has no infinity

float floored(float logprob) { return logprob >= kLogprobFloor ? logprob : kLogprobFloor; }

// What has arrived, where it lies.
template <class T>
class Arrived {
 public:
  explicit Arrived(const std::unique_ptr<Download>& download) {
    if (download) bytes_ = download->wait();
  }
  T operator[](std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

// All the memory that collect() needs: where there is none, it is known before the device begins.
void LaunchedStep::make_room(const StepPlan& plan) {
  result_.tokens.resize(plan.num_sampled());
  const auto wants = [](const PlannedRow& row) { return row.top >= 0; };
  if (std::none_of(plan.rows.begin(), plan.rows.end(), wants)) return;
  result_.logprobs.resize(plan.rows.size());
  for (std::size_t row = 0; row < plan.rows.size(); ++row)
    result_.logprobs[row].top.reserve(static_cast<std::size_t>(std::max(plan.rows[row].top, 0)));
}

StepResult LaunchedStep::collect(const StepPlan& plan) {
  const Arrived<std::int32_t> tokens(tokens_);
  for (std::size_t i = 0; i < result_.tokens.size(); ++i) result_.tokens[i] = tokens[i];
  for (const Logprobs& part : logprobs_) {
    const Arrived<float> chosen(part.chosen), top_values(part.top_values);
    const Arrived<std::int32_t> rank(part.rank), top_ids(part.top_ids);
    for (std::size_t i = 0; i < part.count; ++i) {
      TokenLogprobs& out = result_.logprobs[part.begin + i];
      out.logprob = floored(chosen[i]);
      out.rank = rank[i];
      const auto wanted = std::min(static_cast<std::size_t>(plan.rows[part.begin + i].top), part.top);
      for (std::size_t j = 0; j < wanted; ++j)
        out.top.emplace_back(top_ids[i * part.top + j], floored(top_values[i * part.top + j]));
    }
  }
  return std::move(result_);
}

Status StepOutputs::ensure_rows(int max_rows) {
  Device& device = backend_.device();
  const auto bytes = static_cast<std::size_t>(max_rows) * sizeof(std::int32_t);
  OCTAVO_TRY(known_memory_.ensure(device, bytes, kResultPurpose));
  OCTAVO_TRY(chosen_memory_.ensure(device, bytes, kResultPurpose));
  OCTAVO_TRY(rank_memory_.ensure(device, bytes, kResultPurpose));
  OCTAVO_TRY(top_id_memory_.ensure(device, bytes * kMaxLogprobs, kResultPurpose));
  return top_value_memory_.ensure(device, bytes * kMaxLogprobs, kResultPurpose);
}

// Padding is drawn for too.
std::int64_t StepOutputs::num_drawn(const StepPlan& plan, const Tensor& logits) {
  const bool padded = logits.size(0) > std::ssize(plan.rows);
  return padded ? logits.size(0) : static_cast<std::int64_t>(plan.num_sampled());
}

Status StepOutputs::draw(const StepPlan& plan, const Tensor& logits, const StepInputs& inputs) {
  const std::int64_t sampled = plan.rows.empty() ? 0 : num_drawn(plan, logits);
  if (sampled == 0) return {};
  SampleArgs args = inputs.sampling();
  args.logits = logits.rows(0, sampled);
  args.out = inputs.drawn().rows(0, sampled);
  if (!args.bias_ids.empty() || !args.seen_ids.empty()) {
    OCTAVO_TRY(
        changed_memory_.ensure(backend_.device(), static_cast<std::size_t>(args.logits.bytes()), kResultPurpose));
    args.changed = Tensor(changed_memory_.data(), DType::f32, {sampled, logits.size(1)});
  }
  backend_.ops().sample(args);
  return {};
}

Result<LaunchedStep> StepOutputs::launch(const StepPlan& plan, const Tensor& logits, const StepInputs& inputs) {
  LaunchedStep step;
  if (plan.rows.empty()) return step;
  step.make_room(plan);
  OCTAVO_TRY(draw(plan, logits, inputs));
  const Tensor drawn = inputs.drawn();
  if (const std::int64_t sampled = num_drawn(plan, logits); sampled > 0)
    step.tokens_ = begin_download(drawn.rows(0, sampled));
  launch_log_probs(plan, logits, drawn, step);
  download_logits(plan, logits);
  return step;
}

// Of the sampled rows for the tokens just drawn; of the extra rows for the known ones that follow.
void StepOutputs::launch_log_probs(const StepPlan& plan, const Tensor& logits, const Tensor& drawn,
                                   LaunchedStep& step) {
  const std::size_t sampled = plan.num_sampled();
  std::vector<std::int32_t> following;
  for (std::size_t row = sampled; row < plan.rows.size(); ++row)
    following.push_back(std::max(plan.rows[row].next_id, 0));
  const Tensor known(known_memory_.data(), DType::i32, {std::max<std::int64_t>(1, std::ssize(following))});
  const auto wanted = [](const PlannedRow& row) { return row.top >= 0; };
  if (std::any_of(plan.rows.begin() + static_cast<std::ptrdiff_t>(sampled), plan.rows.end(), wanted))
    backend_.device().upload(known.raw(), std::as_bytes(std::span(following)));

  // Neighbours that all want some are asked for as many as the most demanding one.
  for (std::size_t begin = 0; begin < plan.rows.size();) {
    const std::size_t border = begin < sampled ? sampled : plan.rows.size();
    std::size_t end = begin;
    std::int64_t top = 0;
    for (; end < border && wanted(plan.rows[end]); ++end) top = std::max<std::int64_t>(top, plan.rows[end].top);
    if (end > begin) {
      const auto count = static_cast<std::int64_t>(end - begin);
      const Tensor ids = begin < sampled ? drawn.rows(static_cast<std::int64_t>(begin), count)
                                         : known.rows(static_cast<std::int64_t>(begin - sampled), count);
      step.logprobs_.push_back(launch_rows(logits, ids, begin, end - begin, std::min(top, logits.size(1))));
    }
    begin = std::max(end, begin + 1);
  }
}

LaunchedStep::Logprobs StepOutputs::launch_rows(const Tensor& logits, const Tensor& ids, std::size_t begin,
                                                std::size_t count, std::int64_t top) {
  const auto rows = static_cast<std::int64_t>(count);
  LogProbsArgs args;
  args.logits = logits.rows(static_cast<std::int64_t>(begin), rows);
  args.ids = ids;
  args.chosen = Tensor(chosen_memory_.data(), DType::f32, {rows});
  args.rank = Tensor(rank_memory_.data(), DType::i32, {rows});
  if (top > 0) {
    args.top_ids = Tensor(top_id_memory_.data(), DType::i32, {rows, top});
    args.top_values = Tensor(top_value_memory_.data(), DType::f32, {rows, top});
  }
  backend_.ops().log_probs(args);
  LaunchedStep::Logprobs part{.begin = begin,
                              .count = count,
                              .top = static_cast<std::size_t>(top),
                              .chosen = begin_download(args.chosen),
                              .rank = begin_download(args.rank),
                              .top_ids = nullptr,
                              .top_values = nullptr};
  if (top > 0) {
    part.top_ids = begin_download(args.top_ids);
    part.top_values = begin_download(args.top_values);
  }
  return part;
}

void StepOutputs::download_logits(const StepPlan& plan, const Tensor& logits) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  for (std::size_t row = plan.num_sampled(); row < plan.rows.size(); ++row)
    if (float* to = plan.rows[row].logits_to)
      backend_.device().download(std::as_writable_bytes(std::span(to, vocab)),
                                 logits.rows(static_cast<std::int64_t>(row), 1).raw());
}

}  // namespace octavo
