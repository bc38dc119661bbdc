#include "cuda/backend.h"

namespace octavo::cuda {

Result<std::unique_ptr<Backend>> make_backend(int, const Config&) {
  return Error("this octavo was built without CUDA: use --device cpu", ErrorKind::unsupported);
}

KernelInventory inventory() {
  return {.rows = {}, .note = "this octavo was built without CUDA, so there is no table of kernels in it"};
}

}  // namespace octavo::cuda
