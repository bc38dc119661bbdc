#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace octavo {
namespace {

TEST(ThreadPool, EveryPartRunsOnceAlsoAfterTheWorkersSlept) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      if (round % 100 == 50) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(round % 37));
      pool.run(static_cast<std::int64_t>(runs.size()), [&](std::int64_t i) { runs[static_cast<std::size_t>(i)]++; });
      for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
    }
  }
}

// A worker that is late with a part, as one whose processor was taken away is, rests; the regions after it do not wait.
TEST(ThreadPool, EveryPartRunsOnceAlsoWhileALateWorkerRests) {
  ThreadPool pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  for (int round = 0; round < 400; ++round) {
    std::vector<std::atomic<int>> runs(12);
    std::atomic<bool> delayed{round % 40 != 0};
    pool.run(12, [&](std::int64_t i) {
      if (std::this_thread::get_id() != caller && !delayed.exchange(true))
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      runs[static_cast<std::size_t>(i)]++;
    });
    for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace octavo
