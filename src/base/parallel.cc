#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace octavo {

namespace {
constexpr int kSpins = 2000;  // some ten microseconds: longer than the gap between two regions of a step

void pause_cpu() { __builtin_ia32_pause(); }
}  // namespace

// A region is published by raising `epoch`; a worker that sees a new epoch enters (`active`), takes parts from `next`
// until none are left, and leaves. The caller takes parts too, then waits until nobody is active.
struct ThreadPool::State {
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<std::int64_t> next{0};
  std::atomic<int> remaining{0};  // workers that have not finished the current epoch
  std::int64_t parts = 0;
  Call call = nullptr;
  void* context = nullptr;
  std::atomic<bool> stopping{false};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  void take_parts() {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts;) call(context, i);
  }

  std::uint64_t wait_for_epoch(std::uint64_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (const std::uint64_t now = epoch.load(std::memory_order_acquire); now != seen) return now;
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return epoch.load() != seen; });
    sleepers.fetch_sub(1);
    return epoch.load(std::memory_order_acquire);
  }

  void work() {
    for (std::uint64_t seen = 0;;) {
      seen = wait_for_epoch(seen);
      if (stopping.load(std::memory_order_acquire)) return;
      take_parts();
      remaining.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    epoch.fetch_add(1);
    if (sleepers.load() > 0) {
      { const std::lock_guard lock(mutex); }
      wake.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  check(num_threads >= 1, "a thread pool needs at least one thread");
  for (int i = 1; i < num_threads; ++i) state_->workers.emplace_back([state = state_.get()] { state->work(); });
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run_erased(std::int64_t parts, Call call, void* context) {
  State& state = *state_;
  if (parts <= 1 || state.workers.empty()) {
    for (std::int64_t i = 0; i < parts; ++i) call(context, i);
    return;
  }
  state.parts = parts;
  state.call = call;
  state.context = context;
  state.next.store(0, std::memory_order_relaxed);
  state.remaining.store(static_cast<int>(state.workers.size()), std::memory_order_relaxed);
  state.publish();
  state.take_parts();
  for (int spin = 0; state.remaining.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpins)
      pause_cpu();
    else
      std::this_thread::yield();
  }
}

int available_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace octavo
