// The NVIDIA wing. Without CUDA in the build, cuda/absent.cc is linked and the answer is an error that says so.
#pragma once

#include <memory>

#include "base/result.h"
#include "ops/backend.h"

namespace octavo::cuda {

Result<std::unique_ptr<Backend>> make_backend(int rank);

// What make_backend()'s answer lists, also on a machine without a GPU.
KernelInventory inventory();

}  // namespace octavo::cuda
