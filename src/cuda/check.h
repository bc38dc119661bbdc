// cuda::check: a status of the CUDA runtime that is not success stops the process with its name and the place: such
// errors are sticky, and going on would give wrong answers. Only allocation at start returns a Result instead
// (cuda/device.cc).
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace octavo::cuda {

[[noreturn]] void status_failed(cudaError_t status, const std::source_location& where);

inline void check(cudaError_t status, const std::source_location& where = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    status_failed(status, where);
}

// After a kernel's launch: a refused one (a shape that the hardware does not take) shows here.
inline void check_launch(const std::source_location& where = std::source_location::current()) {
  check(cudaGetLastError(), where);
}

}  // namespace octavo::cuda
