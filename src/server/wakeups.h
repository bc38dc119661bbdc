// Wakeups: how the engine's thread tells the event loop which streams have news: a step of hundreds of streams wakes
// the loop once, and the engine's thread neither waits nor allocates for each token.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "server/exchange.h"

namespace octavo {

class Wakeable {
 public:
  virtual ~Wakeable() = default;
  virtual void woken() = 0;  // on the event loop
};

class Wakeups : public std::enable_shared_from_this<Wakeups> {
 public:
  explicit Wakeups(EventLoop& loop) : loop_(loop) {}

  // May be called from any thread, at any time, as often as one likes; the target may be gone.
  std::function<void()> waker(std::weak_ptr<Wakeable> target);

 private:
  struct Slot {
    std::weak_ptr<Wakeable> target;
    std::atomic<bool> listed{false};
  };
  void list(const std::shared_ptr<Slot>& slot) noexcept;
  void drain();

  EventLoop& loop_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Slot>> slots_;
};

}  // namespace octavo
