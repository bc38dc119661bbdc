// Rows of a weight at their exact values: whatever the dtype and grain of scale, a number times its scale is exact in
// double.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace octavo::cpu {

// Row `row` of [out, in], counted over all parts, as in doubles.
void load_weight_row(const Weight& weight, std::int64_t row, double* to);

// Our own mistakes: a part whose shapes, strides or scales do not fit together.
void check_weight(const Weight& weight);

}  // namespace octavo::cpu
