// Which layers keep the compute dtype while the others take the 8-bit one (--kv-cache-dtype-skip-layers).
//
// Accepts indices of model layers (negative: from the end), ranges `2-5` with both ends, and kinds of layers, in any
// number of values, each separated by commas or spaces. A skipped layer's cache is KvCacheChoice{}. Refuses an index or
// kind that does not exist, and an index whose layer keeps no cache: a typing error must not pass.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace octavo {

// layer_kinds[i]: what model layer i is, "full_attention" or "sliding_window"; empty if it keeps no cache of its own.
// The result says of each model layer whether it is skipped.
Result<std::vector<bool>> parse_skip_layers(std::span<const std::string> values,
                                            std::span<const std::string> layer_kinds);

}  // namespace octavo
