// The numbers of one block of a packed dtype (tensor/dtype.h has the layouts) at their exact values: halves times small
// whole numbers are exact in double.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace octavo::cpu {

// Whether load_packed_block() reads this dtype.
bool is_packed(DType dtype);

// All numbers of the block: dtype_info(dtype).block_elems.
void load_packed_block(const std::byte* block, DType dtype, double* to);

}  // namespace octavo::cpu
