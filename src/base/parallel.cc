#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace octavo {

namespace {
using Clock = std::chrono::steady_clock;

constexpr int kSpins = 2000;  // some ten microseconds: longer than the gap between two regions of a step
// A worker that keeps a region waiting for longer than its parts explain has lost its processor to another process. It
// rests for a while: without it a step is slower, and with it each loss of the processor is everybody's. Who is late
// again soon rests four times as long.
constexpr auto kLate = std::chrono::microseconds(300);
constexpr int kLateParts = 4;
constexpr Clock::duration kLeastRest = std::chrono::milliseconds(2), kMostRest = std::chrono::milliseconds(128);
constexpr auto kSoon = std::chrono::milliseconds(50);

void pause_cpu() { __builtin_ia32_pause(); }
}  // namespace

// A region is published in `open`: its number in the upper half, the parts that nobody has taken in the lower. Whoever
// takes a part lowers it by one, and the region lasts until all parts are done; so nobody waits for a worker that has
// none. Workers that find no part left spin, then sleep.
struct ThreadPool::State {
  alignas(64) std::atomic<std::uint64_t> open{0};
  alignas(64) std::atomic<std::int64_t> left{0};  // parts that are not done
  std::atomic<std::uint64_t> late{0};             // the region that waits for workers
  alignas(64) std::int64_t parts = 0;
  Call call = nullptr;
  void* context = nullptr;
  std::atomic<bool> stopping{false};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  static std::int64_t untaken(std::uint64_t open) { return static_cast<std::int64_t>(open & 0xFFFFFFFFu); }
  static std::uint64_t region(std::uint64_t open) { return open >> 32; }

  bool has_work() const { return untaken(open.load()) > 0 || stopping.load(); }

  // Until no part is left, or this thread was late with one: how many it took. They are counted as done at the end:
  // until then no other region begins.
  std::int64_t take_parts(bool& was_late) {
    std::int64_t taken = 0;
    for (std::uint64_t seen = open.load(std::memory_order_acquire); untaken(seen) > 0 && !was_late;) {
      if (!open.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      call(context, parts - untaken(seen));
      ++taken;
      was_late = late.load(std::memory_order_relaxed) == region(seen);
      seen = open.load(std::memory_order_acquire);
    }
    if (taken > 0) left.fetch_sub(taken, std::memory_order_release);
    return taken;
  }

  void wait_for_work() {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (has_work()) return;
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return has_work(); });
    sleepers.fetch_sub(1);
  }

  void work() {
    Clock::duration rest = kLeastRest;
    Clock::time_point rested;
    for (;;) {
      wait_for_work();
      if (stopping.load(std::memory_order_acquire)) return;
      bool was_late = false;
      take_parts(was_late);
      if (!was_late) continue;
      rest = Clock::now() - rested < kSoon ? std::min(4 * rest, kMostRest) : kLeastRest;
      std::this_thread::sleep_for(rest);
      rested = Clock::now();
    }
  }

  void wake_sleepers() {
    if (sleepers.load() == 0) return;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
  }

  // `taken`: parts that the caller itself has done since the region began.
  void wait_for_parts(std::uint64_t number, Clock::time_point begun, std::int64_t taken) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (left.load(std::memory_order_acquire) == 0) return;
      pause_cpu();
    }
    const Clock::time_point now = Clock::now();
    const Clock::time_point patient = now + kLate + kLateParts * (now - begun) / std::max<std::int64_t>(1, taken);
    while (left.load(std::memory_order_acquire) > 0) {
      if (Clock::now() > patient) late.store(number, std::memory_order_relaxed);
      std::this_thread::yield();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  check(num_threads >= 1, "a thread pool needs at least one thread");
  for (int i = 1; i < num_threads; ++i) state_->workers.emplace_back([state = state_.get()] { state->work(); });
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true);
  state_->wake_sleepers();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run_erased(std::int64_t parts, Call call, void* context) {
  State& state = *state_;
  if (parts <= 1 || state.workers.empty()) {
    for (std::int64_t i = 0; i < parts; ++i) call(context, i);
    return;
  }
  check(parts <= 0xFFFFFFFF, "a region has fewer parts");
  state.parts = parts;
  state.call = call;
  state.context = context;
  state.left.store(parts, std::memory_order_relaxed);
  // 0 is no region's number: it says that none is late
  const std::uint64_t number = std::max<std::uint64_t>(1, (State::region(state.open.load()) + 1) & 0xFFFFFFFFu);
  const Clock::time_point begun = Clock::now();
  state.open.store(number << 32 | static_cast<std::uint64_t>(parts));
  state.wake_sleepers();
  bool was_late = false;  // it is this thread that says so
  const std::int64_t taken = state.take_parts(was_late);
  state.wait_for_parts(number, begun, taken);
}

int available_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace octavo
