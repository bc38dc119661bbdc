// The 32-bit address of what lies in shared memory, as instructions for it take.
#pragma once

#include <cstdint>

namespace octavo::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace octavo::cuda
