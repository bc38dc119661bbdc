#include "cuda/check.h"

#include <string>

#include "base/check.h"

namespace octavo::cuda {

void status_failed(cudaError_t status, const std::source_location& where) {
  check_failed(std::string("the GPU answered ") + cudaGetErrorName(status) + ": " + cudaGetErrorString(status), where);
}

}  // namespace octavo::cuda
