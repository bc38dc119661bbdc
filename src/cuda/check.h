// cuda::check: a status of the CUDA runtime that is not success is our mistake and stops the process with its name and
// the place. But for a device that has failed (a fault of the hardware, a kernel that left its memory): that state
// lasts, every later call reports it, and Device::status() tells the engine, which then ends its requests with a
// sentence. Allocation at start returns a Result instead (cuda/device.cc).
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace octavo::cuda {

// Whether the device can do no more work in this process.
bool is_lasting(cudaError_t status);
void status_failed(cudaError_t status, const std::source_location& where);

inline void check(cudaError_t status, const std::source_location& where = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    status_failed(status, where);
}

// After a kernel's launch: a refused one (a shape that the hardware does not take) shows here.
inline void check_launch(const std::source_location& where = std::source_location::current()) {
  check(cudaGetLastError(), where);
}

}  // namespace octavo::cuda
