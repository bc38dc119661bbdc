#include "engine/inbox.h"

#include <utility>

namespace octavo {

Status Inbox::put(InboxItem item) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return refusal();
    const int count = static_cast<int>(item.sequences.size());
    if (count > 0 && arrived_ + waiting_ + count > max_queued_)
      return Error("the queue is full: " + std::to_string(arrived_ + waiting_) + " of " + std::to_string(max_queued_) +
                       " places are taken and this request needs " + std::to_string(count) + "; try again later",
                   ErrorKind::exhausted);
    items_.push_back(std::move(item));
    arrived_ += count;
  }
  changed_.notify_one();
  return {};
}

std::uint64_t Inbox::next_number() {
  const std::lock_guard lock(mutex_);
  return numbers_++;
}

bool Inbox::take(std::vector<InboxItem>& items, bool idle) {
  std::unique_lock lock(mutex_);
  if (idle) changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
  items = std::exchange(items_, {});
  waiting_ += std::exchange(arrived_, 0);
  return !closed_;
}

void Inbox::set_waiting(int waiting) {
  const std::lock_guard lock(mutex_);
  waiting_ = waiting;
}

int Inbox::queued() const {
  const std::lock_guard lock(mutex_);
  return arrived_ + waiting_;
}

void Inbox::close(std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) reason_ = std::move(reason);
    closed_ = true;
  }
  changed_.notify_all();
}

Error Inbox::refusal() const {
  return Error(reason_.empty() ? std::string("the engine is shutting down") : reason_, ErrorKind::unavailable);
}

Status Inbox::state() const {
  const std::lock_guard lock(mutex_);
  return closed_ ? Status(refusal()) : Status();
}

bool Inbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace octavo
