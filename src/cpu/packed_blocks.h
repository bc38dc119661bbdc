// The numbers of one block of a packed dtype (tensor/dtype.h has the layouts) at their exact values: halves times small
// whole numbers are exact in double.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace octavo::cpu {

// All numbers of the block: dtype_info(dtype).block_elems. The dtype must be packed.
void load_packed_block(const std::byte* block, DType dtype, double* to);

}  // namespace octavo::cpu
