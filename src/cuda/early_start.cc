#include "cuda/early_start.cuh"

#include "cuda/check.h"

namespace octavo::cuda {

namespace {

constexpr int kEarlyStartMajor = 9;  // of the compute capability

bool starts_early() {
  int device = 0;
  int major = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= kEarlyStartMajor;
}

}  // namespace

void launch_early(const cudaLaunchConfig_t& config, const void* kernel, void** arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t early = config;
  early.attrs = &attribute;
  early.numAttrs = starts_early() ? 1 : 0;
  check(cudaLaunchKernelExC(&early, kernel, arguments));
}

}  // namespace octavo::cuda
