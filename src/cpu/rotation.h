// Rope on one head's row, shared by the rope verb and by the writer of the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops.h"

namespace octavo::cpu {

// cos and sin of one position, factor included, [pairs] each; empty for a rule without frequencies.
struct Angles {
  std::vector<float> cos;
  std::vector<float> sin;
};
Angles angles_at(const RopeRule& rule, std::int32_t position);

// Turns the first 2 * pairs elements in place; interleaved pairs come out de-interleaved.
void rotate_row(const Angles& angles, bool interleaved, float* row, std::int64_t width);

}  // namespace octavo::cpu
