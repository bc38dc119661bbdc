// GroupedLinear: the verb `grouped_linear` on the GPU, plain: a warp a number, whatever expert its row chose. The list
// of experts is uploaded at each call, so a step that uses it cannot be recorded yet.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

class GroupedLinear {
 public:
  static constexpr std::size_t kMaxExperts = 1024;
  static Result<GroupedLinear> create(Device& device);

  void run(cudaStream_t stream, const GroupedLinearArgs& args);

 private:
  GroupedLinear(Device& device, Buffer experts) : device_(&device), experts_(std::move(experts)) {}

  Device* device_;
  Buffer experts_;  // PartView [kMaxExperts]
};

}  // namespace octavo::cuda
