#include "base/rendezvous.h"

#include "base/check.h"

namespace octavo {

namespace {

constexpr int kMeetingSpins = 2000;  // as long as a worker of a ThreadPool waits awake

}  // namespace

Rendezvous::Rendezvous(int size) : size_(size) { check(size >= 1, "somebody must come"); }

bool Rendezvous::meet() {
  // The round before the flag: give_up() raises the flag before the round, so who misses the one sees the other.
  const std::uint32_t round = round_.load();
  if (off_.load()) return false;
  if (come_.fetch_add(1) + 1 == size_) {
    come_.store(0);
    round_.fetch_add(1);
    round_.notify_all();
    return true;
  }
  for (int spin = 0; spin < kMeetingSpins; ++spin) {
    if (round_.load(std::memory_order_acquire) != round) return !off_.load();
    __builtin_ia32_pause();
  }
  while (round_.load(std::memory_order_acquire) == round) round_.wait(round);
  return !off_.load();
}

void Rendezvous::give_up() {
  off_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
}

void Rendezvous::restore() {
  come_.store(0);
  off_.store(false);
}

}  // namespace octavo
