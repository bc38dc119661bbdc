// How many experts a layer has and how many of them serve a token, read from config.json under the names in use.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace octavo {

struct ExpertCounts {
  int experts = 0;
  int per_token = 0;
};

// Each list of names: one of them must be there, and those that are there must agree. Refuses more experts per token
// than there are.
Result<ExpertCounts> read_expert_counts(const Json& config, const std::vector<std::string>& experts,
                                        const std::vector<std::string>& per_token);

}  // namespace octavo
