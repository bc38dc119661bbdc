#include "engine/reasoning_meter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace octavo {

ReasoningMeter::ReasoningMeter(ReasoningBudget budget)
    : budget_(std::move(budget)), at_(budget_.open ? At::inside : At::before) {
  check(!budget_.begin.empty() && !budget_.end.empty(), "reasoning stands between two markers");
}

// Whether the last tokens are the first `count` of the marker.
bool ReasoningMeter::ends_with(const std::vector<std::int32_t>& marker, std::size_t count) const {
  return tail_.size() >= count && std::equal(tail_.end() - static_cast<std::ptrdiff_t>(count), tail_.end(),
                                             marker.begin(), marker.begin() + static_cast<std::ptrdiff_t>(count));
}

void ReasoningMeter::accept(std::int32_t token) {
  if (at_ == At::after) return;
  if (tail_.size() == std::max(budget_.begin.size(), budget_.end.size())) tail_.erase(tail_.begin());
  tail_.push_back(token);
  if (at_ == At::inside) {
    ++spent_;
    if (ends_with(budget_.end, budget_.end.size())) at_ = At::after;
  } else if (ends_with(budget_.begin, budget_.begin.size())) {
    at_ = At::inside;
    tail_.clear();
  }
}

std::optional<std::int32_t> ReasoningMeter::forced() const {
  if (at_ != At::inside || spent_ < budget_.tokens) return std::nullopt;
  // The marker may have begun by itself, and is then only completed.
  std::size_t begun = budget_.end.size() - 1;
  while (!ends_with(budget_.end, begun)) --begun;
  return budget_.end[begun];
}

}  // namespace octavo
