// Token ids as people give them to a command: a JSON list.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"

namespace octavo {

// Whole numbers in [0, vocab); the error shows the first that is none.
Result<std::vector<std::int32_t>> token_ids_of(const Json& list, int vocab);

}  // namespace octavo
