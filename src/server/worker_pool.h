// WorkerPool: a few threads for what is too long for the event loop: JSON of bodies, templates, tokenizing. In order of
// arrival, bounded.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo {

class WorkerPool {
 public:
  WorkerPool(int num_threads, std::size_t max_waiting);
  ~WorkerPool();  // drops what waits, and joins

  // False: too much waits already. Work must not throw.
  bool submit(std::function<void()> work);

 private:
  void run();

  const std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace octavo
