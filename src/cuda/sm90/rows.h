// The table of what is built for Hopper: heads of exactly 64, 128 and 256 numbers, K and V both in bfloat16 or both in
// e4m3; of 64 and 128 also K in int8 beside V in e4m3. What is not in it, or is of a GPU of another generation,
// portable/ serves.
#pragma once

#include <span>

#include "cuda/portable/params.h"

namespace octavo::cuda::sm90 {

using portable::KernelRow;

std::span<const KernelRow> all_rows();

}  // namespace octavo::cuda::sm90
