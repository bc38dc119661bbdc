// Writes the entries that the scheduler chose out as a plan that stands on its own.
#pragma once

#include <vector>

#include "engine/step_plan.h"
#include "kv/ledger.h"

namespace octavo {

StepPlan write_plan(std::vector<PlannedSequence> entries, const KvLedger& ledger);

}  // namespace octavo
