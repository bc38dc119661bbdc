// Kernels that start while the one before still runs (programmatic dependent launch, sm_90 and up): the gap between two
// kernels is then spent on what does not depend on the first.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace octavo::cuda {

// What the kernels before wrote may be read, and anything written, only behind this.
__device__ inline void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start, if it was launched to start early.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" :::);
#endif
}

// Launches a kernel so that it may start early, where the GPU in use knows that.
void launch_early(const cudaLaunchConfig_t& config, const void* kernel, void** arguments);

// The kernel waits before it reads or writes, every thread of it: one that ended without would let the next run beside
// the one before.
template <class... Parameters, class... Arguments>
void launch_early(cudaStream_t stream, dim3 blocks, int threads, int shared_bytes, void (*kernel)(Parameters...),
                  Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  const auto launch = [&](auto... given) {
    void* pointers[] = {&given...};
    launch_early(config, reinterpret_cast<const void*>(kernel), pointers);
  };
  launch(std::remove_cv_t<Parameters>(arguments)...);
}

}  // namespace octavo::cuda
