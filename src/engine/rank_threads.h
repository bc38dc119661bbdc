// RankThreads: the ranks of one model at work. Rank 0 works on the caller's thread, each further one always on the same
// thread of its own.
//
// A rank that fails, by an error or an exception, makes the others' collectives return; run() comes back when all have,
// tells the first failure, and leaves collectives as they were, or says why they cannot work again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "ops/comm.h"

namespace octavo {

class RankThreads {
 public:
  using Work = std::function<Status(int rank)>;

  explicit RankThreads(std::vector<Comm*> comms);  // of each rank; they are used until the destructor has returned
  ~RankThreads();

  int size() const { return static_cast<int>(comms_.size()); }

  // work(rank) once for each rank, at the same time. Takes no memory of its own. One caller at a time; not from `work`.
  Status run(const Work& work);

 private:
  struct Outcome {
    Status status;
    std::exception_ptr thrown;

    bool failed() const { return thrown || !status; }
  };

  void serve(int rank);
  void attempt(int rank, const Work& work);
  void run_all(const Work& work);

  std::vector<Comm*> comms_;
  std::vector<Outcome> outcomes_;  // by rank
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const Work* work_ = nullptr;
  std::uint64_t round_ = 0;
  int under_way_ = 0;  // ranks beyond the first that have not finished the round
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace octavo
