// A pool of workers for the arithmetic of one step.
//
// run(n, work) calls work(i) once for every i in [0, n), on the caller and the workers, and returns when all are done.
// The split into n parts is the caller's, so a result never depends on how many threads there are.
// Waiting workers spin for some microseconds (a step is many short regions), then sleep: a busy neighbour on the
// machine must not be starved, nor starve us. A region waits for nobody who has no part of it, and a worker that lost
// its processor to a neighbour in the middle of one rests for a while.
// Not reentrant: `work` must not call run() on the same pool. One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace octavo {

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // the caller counts as one: ThreadPool(1) starts no thread
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  template <class Work>
  void run(std::int64_t parts, Work&& work) {
    run_erased(
        parts, [](void* context, std::int64_t i) { (*static_cast<std::remove_reference_t<Work>*>(context))(i); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Call = void (*)(void*, std::int64_t);
  void run_erased(std::int64_t parts, Call call, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

// What the machine gives this process: the CPUs it may run on.
int available_cpus();

}  // namespace octavo
