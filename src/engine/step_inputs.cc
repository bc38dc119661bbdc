#include "engine/step_inputs.h"

#include <algorithm>

#include "base/check.h"

namespace octavo {
namespace {

constexpr const char* kPurpose = "the inputs of a step";

std::size_t int_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(std::int32_t); }

}  // namespace

Status DeviceArray::ensure(Device& device, std::size_t bytes, const std::string& purpose) {
  if (bytes <= buffer_.size()) return {};
  // Half as much again, so that a list that grows token by token is not allocated anew each time.
  OCTAVO_TRY(buffer_, device.allocate(buffer_.size() == 0 ? bytes : bytes + bytes / 2, purpose));
  return {};
}

Result<std::unique_ptr<StepInputs>> StepInputs::create(Device& device, const StepLimits& limits) {
  auto inputs = std::unique_ptr<StepInputs>(new StepInputs(device, limits));
  OCTAVO_TRY(inputs->allocate());
  return inputs;
}

Status StepInputs::allocate() {
  const auto groups = static_cast<std::size_t>(limits_.num_groups);
  slot_memory_.resize(groups);
  table_memory_.resize(groups);
  slots_.resize(groups);
  page_tables_.resize(groups);
  table_rows_.assign(groups, std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(limits_.max_seqs)));
  OCTAVO_TRY(id_memory_.ensure(device_, int_bytes(limits_.max_tokens), kPurpose));
  OCTAVO_TRY(position_memory_.ensure(device_, int_bytes(limits_.max_tokens), kPurpose));
  OCTAVO_TRY(start_memory_.ensure(device_, int_bytes(limits_.max_seqs + 1), kPurpose));
  OCTAVO_TRY(context_memory_.ensure(device_, int_bytes(limits_.max_seqs), kPurpose));
  for (DeviceArray& slots : slot_memory_) OCTAVO_TRY(slots.ensure(device_, int_bytes(limits_.max_tokens), kPurpose));
  for (DeviceArray& table : table_memory_) {
    const std::size_t bytes = int_bytes(std::int64_t{limits_.max_seqs} * limits_.max_pages);
    OCTAVO_TRY(table.ensure(device_, bytes, kPurpose));
    device_.fill_zero(table.data(), bytes);  // entries beyond a sequence read the sink
  }
  return ensure_rows(limits_.max_rows);
}

Status StepInputs::ensure_rows(int max_rows) {
  limits_.max_rows = std::max(limits_.max_rows, max_rows);
  OCTAVO_TRY(row_memory_.ensure(device_, int_bytes(limits_.max_rows), kPurpose));
  return setting_memory_.ensure(device_, static_cast<std::size_t>(limits_.max_rows) * sizeof(SampleRow), kPurpose);
}

Tensor StepInputs::upload_ints(const DeviceArray& to, std::span<const std::int32_t> values) const {
  check(values.size_bytes() <= to.size(), "a step is within its limits");
  device_.upload(to.data(), std::as_bytes(values));
  return Tensor(to.data(), DType::i32, {static_cast<std::int64_t>(values.size())});
}

Status StepInputs::upload(const StepPlan& plan) {
  check(static_cast<int>(plan.sequences.size()) <= limits_.max_seqs && plan.groups.size() == slot_memory_.size(),
        "a step is within its limits");
  ids_ = upload_ints(id_memory_, plan.ids);
  upload_batch(plan);
  for (std::size_t group = 0; group < plan.groups.size(); ++group) upload_group(plan, group);
  std::vector<std::int32_t> rows;
  for (const PlannedRow& row : plan.rows) rows.push_back(row.token_row);
  rows_ = upload_ints(row_memory_, rows);
  return upload_sampling(plan.sampling);
}

void StepInputs::upload_batch(const StepPlan& plan) {
  batch_ = BatchView{};
  batch_.num_seqs = static_cast<std::int32_t>(plan.sequences.size());
  batch_.num_decodes = plan.num_decodes;
  batch_.num_tokens = static_cast<std::int32_t>(plan.ids.size());
  std::vector<std::int32_t> start{0};
  std::vector<std::int32_t> context;
  for (const PlannedSequence& entry : plan.sequences) {
    start.push_back(start.back() + entry.count);
    context.push_back(entry.context());
    batch_.max_query = std::max(batch_.max_query, entry.count);
    batch_.max_context = std::max(batch_.max_context, entry.context());
  }
  batch_.query_start = upload_ints(start_memory_, start);
  batch_.context = upload_ints(context_memory_, context);
  batch_.positions = upload_ints(position_memory_, plan.positions);
}

void StepInputs::upload_group(const StepPlan& plan, std::size_t group) {
  const PlannedPages& planned = plan.groups[group];
  std::vector<std::int32_t> slots;
  slots.reserve(plan.ids.size());
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const auto pages = std::span(planned.pages).subspan(planned.begin[s], planned.begin[s + 1] - planned.begin[s]);
    check(static_cast<int>(pages.size()) <= limits_.max_pages, "a sequence is no longer than its page table");
    const PlannedSequence& entry = plan.sequences[s];
    for (int token = entry.first; token < entry.context(); ++token)
      slots.push_back(pages[static_cast<std::size_t>(token / limits_.page_size)] * limits_.page_size +
                      token % limits_.page_size);
    std::vector<std::int32_t>& held = table_rows_[group][s];
    if (std::equal(held.begin(), held.end(), pages.begin(), pages.end())) continue;
    held.assign(pages.begin(), pages.end());
    device_.upload(table_memory_[group].data() + int_bytes(static_cast<std::int64_t>(s) * limits_.max_pages),
                   std::as_bytes(std::span(held)));
  }
  slots_[group] = upload_ints(slot_memory_[group], slots);
  page_tables_[group] = Tensor(table_memory_[group].data(), DType::i32,
                               {static_cast<std::int64_t>(plan.sequences.size()), limits_.max_pages});
}

Status StepInputs::upload_sampling(const SampleBatch& sampling) {
  sampling_ = SampleArgs{};
  if (sampling.rows.empty()) return {};
  const auto put_ints = [this](DeviceArray& to, std::span<const std::int32_t> values, Tensor& view) -> Status {
    if (values.empty()) return {};
    OCTAVO_TRY(to.ensure(device_, values.size_bytes(), kPurpose));
    view = upload_ints(to, values);
    return {};
  };
  OCTAVO_TRY(put_ints(bias_id_memory_, sampling.bias_ids, sampling_.bias_ids));
  OCTAVO_TRY(put_ints(seen_id_memory_, sampling.seen_ids, sampling_.seen_ids));
  OCTAVO_TRY(put_ints(seen_count_memory_, sampling.seen_counts, sampling_.seen_counts));
  if (const auto values = std::as_bytes(std::span(sampling.bias_values)); !values.empty()) {
    OCTAVO_TRY(bias_value_memory_.ensure(device_, values.size(), kPurpose));
    device_.upload(bias_value_memory_.data(), values);
    sampling_.bias_values = Tensor(bias_value_memory_.data(), DType::f32, {std::ssize(sampling.bias_values)});
  }
  const auto settings = std::as_bytes(std::span(sampling.rows));
  check(settings.size() <= setting_memory_.size(), "a step is within its limits");
  device_.upload(setting_memory_.data(), settings);
  sampling_.rows = reinterpret_cast<const SampleRow*>(setting_memory_.data());
  return {};
}

void StepInputs::stretch() {
  const std::int64_t tokens = limits_.max_tokens;
  const std::int64_t seqs = limits_.max_seqs;
  ids_ = Tensor(id_memory_.data(), DType::i32, {tokens});
  rows_ = Tensor(row_memory_.data(), DType::i32, {limits_.max_rows});
  batch_.num_seqs = limits_.max_seqs;
  batch_.num_decodes = 0;
  batch_.num_tokens = limits_.max_tokens;
  batch_.max_query = limits_.max_tokens;
  batch_.max_context = limits_.max_pages * limits_.page_size;
  batch_.query_start = Tensor(start_memory_.data(), DType::i32, {seqs + 1});
  batch_.context = Tensor(context_memory_.data(), DType::i32, {seqs});
  batch_.positions = Tensor(position_memory_.data(), DType::i32, {tokens});
  for (std::size_t group = 0; group < slots_.size(); ++group) {
    slots_[group] = Tensor(slot_memory_[group].data(), DType::i32, {tokens});
    page_tables_[group] = Tensor(table_memory_[group].data(), DType::i32, {seqs, limits_.max_pages});
  }
}

}  // namespace octavo
