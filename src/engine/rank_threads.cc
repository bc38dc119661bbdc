#include "engine/rank_threads.h"

#include <algorithm>
#include <utility>

namespace octavo {

RankThreads::RankThreads(std::vector<Comm*> comms) : comms_(std::move(comms)), outcomes_(comms_.size()) {
  threads_.reserve(comms_.size());
  for (int rank = 1; rank < size(); ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::serve(int rank) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;;) {
    begin_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    const Work& work = *work_;
    lock.unlock();
    attempt(rank, work);
    lock.lock();
    if (--under_way_ == 0) end_.notify_one();
  }
}

void RankThreads::attempt(int rank, const Work& work) {
  Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
  try {
    outcome = {work(rank), nullptr};
  } catch (...) {
    outcome = {Status(), std::current_exception()};
  }
  if (outcome.failed()) comms_[static_cast<std::size_t>(rank)]->give_up();
}

void RankThreads::run_all(const Work& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    under_way_ = size() - 1;
    ++round_;
  }
  begin_.notify_all();
  attempt(0, work);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return under_way_ == 0; });
}

Status RankThreads::run(const Work& work) {
  if (size() == 1) return work(0);
  run_all(work);
  const auto failed = std::find_if(outcomes_.begin(), outcomes_.end(), [](const Outcome& o) { return o.failed(); });
  if (failed == outcomes_.end()) return {};
  const Outcome first = std::move(*failed);
  // Failures here are those of the communication itself.
  run_all([this](int rank) { return comms_[static_cast<std::size_t>(rank)]->restore(); });
  for (Outcome& outcome : outcomes_) {
    if (outcome.thrown) std::rethrow_exception(outcome.thrown);
    if (!outcome.status) return std::move(outcome.status).error();
  }
  if (first.thrown) std::rethrow_exception(first.thrown);
  return first.status;
}

}  // namespace octavo
