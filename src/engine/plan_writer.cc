#include "engine/plan_writer.h"

#include <algorithm>
#include <utility>

namespace octavo {
namespace {

void write_tokens(StepPlan& plan) {
  for (const PlannedSequence& entry : plan.sequences) {
    const Sequence& sequence = *entry.sequence;
    for (int position = entry.first; position < entry.context(); ++position) {
      const bool known = position < sequence.size();
      plan.ids.push_back(known ? sequence.tokens[static_cast<std::size_t>(position)] : drawn_id(sequence.drawn_row));
      plan.positions.push_back(position);
    }
  }
}

void write_pages(StepPlan& plan, const KvLedger& ledger) {
  plan.groups.resize(static_cast<std::size_t>(ledger.num_pools()));
  for (int pool = 0; pool < ledger.num_pools(); ++pool) {
    PlannedPages& group = plan.groups[static_cast<std::size_t>(pool)];
    for (const PlannedSequence& entry : plan.sequences) {
      const auto pages = ledger.pages(entry.sequence->cache, pool);
      group.pages.insert(group.pages.end(), pages.begin(), pages.end());
      group.begin.push_back(group.pages.size());
      if (const std::int32_t snapshot = ledger.snapshot(entry.sequence->cache, pool); snapshot != kSinkPage)
        plan.copies.push_back({.group = pool, .from = snapshot, .to = pages.front()});
      if (entry.begun.empty()) continue;
      const auto page = static_cast<std::size_t>(entry.first / ledger.page_size());
      plan.copies.push_back({.group = pool, .from = entry.begun[static_cast<std::size_t>(pool)], .to = pages[page]});
    }
  }
}

// The last token of a sequence: the next one is drawn from its row.
void write_sampled_rows(StepPlan& plan) {
  std::int32_t row = 0;
  for (std::size_t e = 0; e < plan.sequences.size(); ++e) {
    const PlannedSequence& entry = plan.sequences[e];
    const Sequence& sequence = *entry.sequence;
    row += entry.count;
    if (entry.context() < sequence.planned_size() || sequence.job) continue;
    sequence.sampler.append_row(plan.sampling, sequence.planned_size(), sequence.planned_generated());
    plan.rows.push_back(
        {.entry = e, .token_row = row - 1, .position = entry.context() - 1, .top = sequence.logprobs.value_or(-1)});
  }
}

// Rows of prompt tokens whose logits or log-probabilities were asked for and not yet delivered.
void write_extra_rows(StepPlan& plan) {
  std::int32_t row = 0;
  for (std::size_t e = 0; e < plan.sequences.size(); ++e) {
    const PlannedSequence& entry = plan.sequences[e];
    const Sequence& sequence = *entry.sequence;
    const int end = std::min(entry.context(), sequence.extra_rows_end());
    for (int position = std::max(entry.first, sequence.rows_done); position < end; ++position) {
      PlannedRow extra{.entry = e, .token_row = row + position - entry.first, .position = position};
      const auto at = static_cast<std::size_t>(position);
      if (sequence.job) {
        LogitsJob& job = *sequence.job;
        const auto first = static_cast<std::size_t>(job.first_row);
        extra.logits_to = job.logits.data() + (at - first) * (job.logits.size() / (sequence.tokens.size() - first));
      } else {
        extra.next_id = sequence.tokens[at + 1];
        extra.top = *sequence.prompt_logprobs;
      }
      plan.rows.push_back(extra);
    }
    row += entry.count;
  }
}

}  // namespace

StepPlan write_plan(std::vector<PlannedSequence> entries, const KvLedger& ledger) {
  StepPlan plan;
  plan.sequences = std::move(entries);
  const auto end_of_decodes = std::stable_partition(plan.sequences.begin(), plan.sequences.end(),
                                                    [](const PlannedSequence& entry) { return entry.count == 1; });
  plan.num_decodes = static_cast<int>(end_of_decodes - plan.sequences.begin());
  write_tokens(plan);
  write_pages(plan, ledger);
  write_sampled_rows(plan);
  write_extra_rows(plan);
  return plan;
}

}  // namespace octavo
