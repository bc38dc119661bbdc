#include "text/long_merge.h"

#include <algorithm>
#include <functional>

namespace octavo {

void LongMerge::Waiting::add(std::int32_t position) {
  if (!started) return positions.push_back(position);
  late.push_back(position);
  std::push_heap(late.begin(), late.end(), std::greater<>());
}

void LongMerge::Waiting::start() {
  if (!started && !std::is_sorted(positions.begin(), positions.end())) std::sort(positions.begin(), positions.end());
  started = true;
}

std::int32_t LongMerge::Waiting::take() {
  if (late.empty() || (next < positions.size() && positions[next] <= late.front())) return positions[next++];
  std::pop_heap(late.begin(), late.end(), std::greater<>());
  const std::int32_t position = late.back();
  late.pop_back();
  return position;
}

MergeTable::Found LongMerge::pair_at(std::int32_t left) const {
  if (tokens_[left] < 0 || next_[left] == count_) return {};
  return merges_->find(tokens_[left], tokens_[next_[left]]);
}

void LongMerge::add_pair(std::int32_t left) {
  const MergeTable::Found found = pair_at(left);
  if (found.rank == MergeTable::kNever) return;
  const auto [entry, is_new] = waiting_.try_emplace(found.rank);
  entry->second.add(left);
  if (!is_new) return;
  ranks_.push_back(found.rank);
  std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
}

void LongMerge::merge_at(std::int32_t left, std::uint32_t rank) {
  const MergeTable::Found found = pair_at(left);
  if (found.rank != rank) return;
  const std::int32_t gone = next_[left], end = next_[gone];
  tokens_[left] = found.merged;
  tokens_[gone] = -1;
  next_[left] = end;
  next_[end - 1] = left;
  if (left > 0) add_pair(tokens_[left - 1] < 0 ? next_[left - 1] : left - 1);
  add_pair(left);
}

void LongMerge::run(const MergeTable& merges, std::int32_t* tokens, std::size_t count, std::vector<std::int32_t>& ids) {
  merges_ = &merges;
  tokens_ = tokens;
  count_ = static_cast<std::int32_t>(count);
  next_.resize(count);
  for (std::int32_t i = 0; i < count_; ++i) next_[i] = i + 1;
  for (std::int32_t i = 0; i + 1 < count_; ++i) add_pair(i);
  while (!ranks_.empty()) {
    const std::uint32_t rank = ranks_.front();
    Waiting& waiting = waiting_.at(rank);  // stays in its place while others are added
    waiting.start();
    // A merge may bring forth a pair of lower rank, which then goes first.
    while (!waiting.empty() && ranks_.front() == rank) merge_at(waiting.take(), rank);
    if (ranks_.front() != rank) continue;
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
    waiting_.erase(rank);
  }
  for (std::int32_t i = 0; i < count_; i = next_[i]) ids.push_back(tokens_[i]);
}

}  // namespace octavo
