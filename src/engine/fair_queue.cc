#include "engine/fair_queue.h"

#include <algorithm>
#include <utility>

namespace octavo {
namespace {

constexpr double kRemembered = 16384;         // tokens that a caller may be ahead of its share
constexpr std::size_t kForgetAboveSize = 64;  // callers that have left are looked through from so many on

}  // namespace

void FairQueue::enter(Sequence& sequence) {
  FairLevel& level = levels_[sequence.priority];
  FairAccount& account = level.accounts[sequence.caller];
  account.level = &level;
  if (account.present++ == 0) ++level.present;
  sequence.account = &account;
}

void FairQueue::leave(Sequence& sequence) {
  FairAccount* account = std::exchange(sequence.account, nullptr);
  if (account == nullptr || --account->present > 0) return;
  if (--account->level->present == 0)
    levels_.erase(sequence.priority);
  else
    forget(*account->level);
}

// Callers that have gone and had no more than their share.
void FairQueue::forget(FairLevel& level) {
  if (level.accounts.size() < kForgetAboveSize + 2 * static_cast<std::size_t>(level.present)) return;
  std::erase_if(level.accounts,
                [&](const auto& entry) { return entry.second.present == 0 && entry.second.served <= level.share; });
}

void FairQueue::begin_waiting(FairAccount& account) {
  if (!account.waiting.empty()) return;
  account.served = std::clamp(account.served, account.level->share, account.level->share + kRemembered);
}

void FairQueue::push(const std::shared_ptr<Sequence>& sequence) {
  begin_waiting(*sequence->account);
  if (sequence->account->waiting.insert(sequence).second) ++size_;
}

void FairQueue::push(Node node) {
  FairAccount& account = *node.value()->account;
  begin_waiting(account);
  account.waiting.insert(std::move(node));
  ++size_;
}

FairQueue::Node FairQueue::extract(const std::shared_ptr<Sequence>& sequence) {
  if (sequence->account == nullptr) return {};
  Node node = sequence->account->waiting.extract(sequence);
  if (!node.empty()) --size_;
  return node;
}

std::shared_ptr<Sequence> FairQueue::front() const {
  for (const auto& [priority, level] : levels_) {
    const FairAccount* first = nullptr;
    for (const auto& [name, account] : level.accounts) {
      if (account.waiting.empty()) continue;
      const bool before =
          first == nullptr || account.served < first->served ||
          (account.served == first->served && ByArrival()(*account.waiting.begin(), *first->waiting.begin()));
      if (before) first = &account;
    }
    if (first != nullptr) return *first->waiting.begin();
  }
  return nullptr;
}

void FairQueue::charge(Sequence& sequence, int first, int end) {
  const int tokens = end - std::max(first, sequence.charged);
  if (tokens <= 0) return;
  sequence.charged = end;
  FairAccount& account = *sequence.account;
  account.served += tokens;
  account.level->share += static_cast<double>(tokens) / account.level->present;
}

}  // namespace octavo
