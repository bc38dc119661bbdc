// `octavo advise --kernels`: the rows of the program's table of kernels, with their registers, shared memory and spills
// where a GPU is there to ask.
#pragma once

#include <string>

#include "ops/kernel_row.h"

namespace octavo {

struct AdviseOptions {
  std::string output_json;  // or empty
};
Status advise_kernels(const AdviseOptions& options, const KernelInventory& inventory);

}  // namespace octavo
