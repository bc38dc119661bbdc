// Flags of `vllm serve` that start commands carry and that mean nothing here, or one thing alone: so that such a command
// works as it is, and says where it asks for what is not there.
#pragma once

#include <vector>

#include "app/flag_rows.h"

namespace octavo {

void add_compatible_rows(std::vector<FlagRow>& rows);

}  // namespace octavo
