#include "engine/runners.h"

#include <optional>
#include <utility>

namespace octavo {

Result<std::unique_ptr<Runners>> Runners::create(RankThreads& threads, const std::vector<RunnerParts>& parts,
                                                 const StepLimits& limits) {
  check(std::ssize(parts) == threads.size(), "parts of each rank");
  auto all = std::unique_ptr<Runners>(new Runners(threads));
  const Status made = threads.run([&](int rank) -> Status {
    const auto i = static_cast<std::size_t>(rank);
    OCTAVO_TRY(all->runners_[i], Runner::create(parts[i], limits));
    return {};
  });
  if (!made) return made.error();
  return all;
}

Status Runners::record_decodes() {
  return threads_.run([this](int rank) { return of(rank).record_decodes(); });
}

Result<LaunchedStep> Runners::launch(const StepPlan& plan) {
  std::optional<LaunchedStep> launched;
  const Status done = threads_.run([&](int rank) -> Status {
    if (rank > 0) return of(rank).follow(plan);
    OCTAVO_TRY(launched, of(rank).launch(plan));
    return {};
  });
  if (!done) return done.error();
  return *std::move(launched);
}

Result<StepResult> Runners::collect(const StepPlan& plan, LaunchedStep step) {
  OCTAVO_TRY(StepResult result, of(0).collect(plan, std::move(step)));
  for (int rank = 1; rank < threads_.size(); ++rank) OCTAVO_TRY(of(rank).status());
  return result;
}

Status Runners::ensure_rows(int max_rows) {
  return threads_.run([&](int rank) { return of(rank).ensure_rows(max_rows); });
}

std::size_t Runners::activation_bytes() const {
  std::size_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->activation_bytes();
  return bytes;
}

}  // namespace octavo
