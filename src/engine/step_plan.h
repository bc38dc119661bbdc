// StepPlan: the decision for one step, complete and never changed: which tokens of which sequences are computed, where
// their cache pages are, which rows of logits are wanted and what becomes of them. It refers to nothing that may change
// meanwhile. StepResult: what came out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

namespace octavo {

struct PlannedSequence {
  std::shared_ptr<Sequence> sequence;  // a name for commit; the runner does not look inside
  int first = 0;                       // tokens [first, first + count)
  int count = 0;
  // By cache group: the page of another sequence whose content its own page of token `first` begins with. Empty: none.
  std::vector<std::int32_t> begun = {};
  int context() const { return first + count; }
};

// The page tables of one cache group, one after another: sequence s has [begin[s], begin[s + 1]).
struct PlannedPages {
  std::vector<std::int32_t> pages;
  std::vector<std::size_t> begin{0};
};

// Before a step, in every layer of a group: page `to` becomes what page `from` is. A state group's pages are records.
struct PageCopy {
  int group = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

// One row of logits.
struct PlannedRow {
  std::size_t entry = 0;       // which of the plan's sequences
  std::int32_t token_row = 0;  // among the step's tokens
  int position = 0;            // in its sequence
  std::int32_t next_id = -1;   // the token that follows, where that is known; sampled rows: not
  int top = -1;                // log-probabilities of this many best tokens are wanted; -1: none
  float* logits_to = nullptr;  // [vocab] on the host, or null
};

// The name of a token that the step before draws in this sampled row of its own, as no id can be.
constexpr std::int32_t drawn_id(std::int32_t row) { return -1 - row; }
constexpr std::int32_t drawn_row(std::int32_t id) { return -1 - id; }

struct StepPlan {
  std::vector<PlannedSequence> sequences;  // those of one token first
  int num_decodes = 0;                     // of one token
  std::vector<std::int32_t> ids;           // [tokens]; drawn_id() where the step before draws it
  std::vector<std::int32_t> positions;     // [tokens]
  std::vector<PlannedPages> groups;
  std::vector<PageCopy> copies;
  std::vector<PlannedRow> rows;  // the sampled ones first
  SampleBatch sampling;          // one row a sampled row

  bool empty() const { return sequences.empty(); }
  std::size_t num_sampled() const { return sampling.rows.size(); }
};

struct StepResult {
  std::vector<std::int32_t> tokens;     // [num_sampled]
  std::vector<TokenLogprobs> logprobs;  // [rows]; filled where a row asked, or empty when none did
};

}  // namespace octavo
