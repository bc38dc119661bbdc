#include "cuda/backend.h"

namespace octavo::cuda {

Result<std::unique_ptr<Backend>> make_backend(int) {
  return Error("this octavo was built without CUDA: use --device cpu", ErrorKind::unsupported);
}

}  // namespace octavo::cuda
