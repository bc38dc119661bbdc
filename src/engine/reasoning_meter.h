// ReasoningMeter: counts the tokens of an answer's reasoning, which stands between two markers, and says from when on
// the closing one must be written (`thinking_token_budget` of vLLM's API).
//
// Only the first reasoning of an answer is bounded: what follows its end is content, whatever markers it quotes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/request.h"

namespace octavo {

class ReasoningMeter {
 public:
  explicit ReasoningMeter(ReasoningBudget budget);

  void accept(std::int32_t token);
  // The token that must come next; absent: any may.
  std::optional<std::int32_t> forced() const;

 private:
  enum class At { before, inside, after };

  bool ends_with(const std::vector<std::int32_t>& marker, std::size_t count) const;

  ReasoningBudget budget_;
  At at_;
  int spent_ = 0;
  std::vector<std::int32_t> tail_;  // the last tokens, as many as the longer marker has
};

}  // namespace octavo
