// StepProfile: what the largest steps really take of a device's memory, found by running them on dummy tokens: inputs,
// activations, plans and recordings, and whatever the device's libraries take with them. The cache gets what they
// leave.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "engine/runner.h"

namespace octavo {

// Runs a step of as many prompt tokens as the limits allow and the decode steps of every size. parts.store may hold a
// single page for tokens: all of them are written there, and what the steps compute means nothing.
Result<std::size_t> profile_steps(const RunnerParts& parts, const StepLimits& limits);

}  // namespace octavo
