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

}  // namespace
}  // namespace octavo
