// Kernels that start while the one before still runs (programmatic dependent launch, sm_90 and up): the gap between two
// kernels is then spent on what does not depend on the first.
#pragma once

#include <cuda_runtime.h>

#include "cuda/check.h"

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

// early: only on GPUs that know it.
template <class... Parameters, class... Arguments>
void launch_early(cudaStream_t stream, bool early, unsigned blocks, int threads, void (*kernel)(Parameters...),
                  Arguments... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace octavo::cuda
