#include "engine/step_profile.h"

#include <algorithm>
#include <utility>

#include "engine/runners.h"

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

Result<std::size_t> profile_steps(RankThreads& threads, const std::vector<RunnerParts>& parts,
                                  const StepLimits& limits) {
  std::vector<std::size_t> before;
  for (const RunnerParts& rank : parts) {
    rank.backend.device().synchronize();
    before.push_back(rank.backend.device().memory().available_bytes);
  }
  OCTAVO_TRY(const auto runners, Runners::create(threads, parts, limits));
  const StepPlan plan = largest_prefill(limits);
  OCTAVO_TRY(LaunchedStep step, runners->launch(plan));
  OCTAVO_TRY(runners->collect(plan, std::move(step)));
  OCTAVO_TRY(runners->record_decodes());
  std::size_t most = runners->activation_bytes() / parts.size();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const std::size_t after = parts[rank].backend.device().memory().available_bytes;
    most = std::max(most, before[rank] - std::min(before[rank], after));
  }
  return most;
}

}  // namespace octavo
