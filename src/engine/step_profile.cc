#include "engine/step_profile.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr std::int32_t kOnlyPage = 1;  // page 0 is the sink

// Prompts of the longest length that a page table holds, until the step is full. Each samples a token.
StepPlan largest_prefill(const StepLimits& limits) {
  StepPlan plan;
  plan.groups.resize(static_cast<std::size_t>(limits.num_groups + limits.num_state_groups));
  const int longest =
      static_cast<int>(std::min<std::int64_t>(limits.max_tokens, std::int64_t{limits.max_pages} * limits.page_size));
  for (int left = limits.max_tokens; left > 0 && static_cast<int>(plan.sequences.size()) < limits.max_seqs;) {
    const int count = std::min(left, longest);
    const std::size_t entry = plan.sequences.size();
    plan.sequences.push_back({.sequence = nullptr, .first = 0, .count = count});
    for (int position = 0; position < count; ++position) {
      plan.ids.push_back(0);
      plan.positions.push_back(position);
    }
    for (PlannedPages& group : plan.groups) {
      group.pages.insert(group.pages.end(), static_cast<std::size_t>((count - 1) / limits.page_size + 1), kOnlyPage);
      group.begin.push_back(group.pages.size());
    }
    if (static_cast<int>(plan.rows.size()) < limits.max_rows) {
      plan.rows.push_back(
          {.entry = entry, .token_row = static_cast<std::int32_t>(plan.ids.size()) - 1, .position = count - 1});
      plan.sampling.rows.emplace_back();
    }
    left -= count;
  }
  return plan;
}

}  // namespace

Result<std::size_t> profile_steps(const RunnerParts& parts, const StepLimits& limits) {
  Device& device = parts.backend.device();
  device.synchronize();
  const std::size_t before = device.memory().available_bytes;
  OCTAVO_TRY(const auto runner, Runner::create(parts, limits));
  OCTAVO_TRY(runner->run(largest_prefill(limits)));
  OCTAVO_TRY(runner->record_decodes());
  const std::size_t after = device.memory().available_bytes;
  return std::max(before - std::min(before, after), runner->activation_bytes());
}

}  // namespace octavo
