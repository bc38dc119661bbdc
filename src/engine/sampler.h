// Sampler: how the next token of one sequence is chosen: its SamplingParams brought into the form of the sampling verb,
// and the counts that its penalties need. SampleBatch: the rows of one step side by side, ready for upload.
//
// A draw depends on (seed, position) and on what the sequence holds, never on the step that it happens in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/reasoning_meter.h"
#include "engine/request.h"
#include "ops/sampling.h"

namespace octavo {

struct SampleBatch {
  std::vector<SampleRow> rows;
  std::vector<std::int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<std::int32_t> seen_ids;
  std::vector<std::int32_t> seen_counts;
};

class Sampler {
 public:
  Sampler() = default;
  // banned_early: the tokens that must not come before min_tokens.
  Sampler(const SamplingParams& params, std::uint64_t seed, std::span<const std::int32_t> prompt,
          std::vector<std::int32_t> banned_early);

  // The row of the token at `position`, of which num_generated came before.
  void append_row(SampleBatch& batch, int position, int num_generated) const;
  void accept(std::int32_t token);
  // Whether the next draw depends on the tokens before it, not only on their number.
  bool needs_history() const { return penalised_ || longest_word_ > 1 || reasoning_; }

 private:
  void note(std::int32_t token, std::int32_t times);
  std::vector<std::int32_t> banned(int num_generated) const;
  void append_biases(SampleBatch& batch, const std::vector<std::int32_t>& banned) const;
  bool append_allowed(SampleBatch& batch, std::vector<std::int32_t> banned) const;

  SampleRow base_;
  std::vector<std::pair<std::int32_t, float>> bias_;
  std::vector<std::int32_t> banned_early_;
  std::vector<std::pair<std::int32_t, float>> allowed_;  // in order, each once, with its bias; empty: any
  std::vector<std::vector<std::int32_t>> bad_words_;
  std::size_t longest_word_ = 0;
  std::vector<std::int32_t> tail_;  // the last generated tokens, as many as a bad word may begin with
  std::optional<ReasoningMeter> reasoning_;
  int min_tokens_ = 0;
  bool penalised_ = false;
  std::unordered_map<std::int32_t, std::size_t> place_;  // of an id in the two lists below
  std::vector<std::int32_t> seen_ids_;
  std::vector<std::int32_t> seen_counts_;
};

// The seed of a continuation whose request has none.
std::uint64_t drawn_seed(std::uint64_t engine_seed, std::uint64_t request_number);

}  // namespace octavo
