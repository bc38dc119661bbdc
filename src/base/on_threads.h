// For tests: the same work on several threads at once, whatever a machine has of CPUs.
#pragma once

#include <thread>
#include <vector>

namespace octavo {

// Runs work(i) on a thread of its own for each i in [0, count); returns when all have ended.
template <class Work>
void on_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace octavo
