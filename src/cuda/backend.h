// The NVIDIA wing. Without CUDA in the build, cuda/absent.cc is linked and the answer is an error that says so.
#pragma once

#include <memory>

#include "base/result.h"
#include "ops/backend.h"

namespace octavo::cuda {

struct Config {
  // Every row is computed alike whatever shares the call with it: matrix products by one algorithm for any number of
  // rows, a decode as a chunk of one token. Slower, above all decodes of long contexts.
  bool deterministic = false;
};

Result<std::unique_ptr<Backend>> make_backend(int rank, const Config& config);

// What make_backend()'s answer lists, also on a machine without a GPU.
KernelInventory inventory();

}  // namespace octavo::cuda
