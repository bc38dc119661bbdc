// StepProfile: what the largest steps really take of a device's memory, found by running them on dummy tokens: inputs,
// activations, plans and recordings, and whatever the device's libraries take with them. The cache gets what they
// leave.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "engine/rank_threads.h"
#include "engine/runner.h"

namespace octavo {

// Runs a step of as many prompt tokens as the limits allow and the decode steps of every size on all ranks. A store may
// hold a single page for tokens: all of them are written there, and what the steps compute means nothing.
// parts: of each rank. The bytes are those of the rank that takes most.
Result<std::size_t> profile_steps(RankThreads& threads, const std::vector<RunnerParts>& parts,
                                  const StepLimits& limits);

}  // namespace octavo
