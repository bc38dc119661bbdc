// One row's RMS norm, shared by the norm verbs and by the writer of the cache.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace octavo::cpu {

// In place; the sum in double. `compute` is what rounded_first rounds to: f32 leaves it as it is.
void norm_row(const NormRule& rule, DType compute, float* row, std::int64_t n);

}  // namespace octavo::cpu
