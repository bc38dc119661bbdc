// GroupedLinear: the verb `grouped_linear` on the GPU, plain: a warp a number, whatever expert its row chose. The list
// of a layer's experts is brought to the GPU the first time it is seen and found again by where it lies on the host, so
// a step that was run once can be recorded. All lists have their room when this is made.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <vector>

#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

class GroupedLinear {
 public:
  static constexpr std::size_t kMaxExperts = std::size_t{1} << 17;  // parts of experts, of all layers

  static Result<GroupedLinear> create(Device& device);

  void run(cudaStream_t stream, const GroupedLinearArgs& args);

 private:
  // What a list in device memory says. Another model may come to lie where one was: then it is brought anew.
  struct Expert {
    const std::byte* values = nullptr;
    const std::byte* scale = nullptr;
    DType dtype = DType::bf16;
    ScaleGrain grain = ScaleGrain::none;
    int block_rows = 0, block_cols = 0;
    std::int64_t out = 0, in = 0;
    bool operator==(const Expert&) const = default;
  };
  struct List {
    std::vector<Expert> experts;  // each part of each
    std::size_t first = 0;  // in table_
  };

  GroupedLinear(Device& device, Buffer table) : device_(&device), table_(std::move(table)) {}
  std::size_t list_of(std::span<const Weight> experts);

  Device* device_;
  Buffer table_;  // PartView [kMaxExperts]
  std::size_t used_ = 0;
  std::map<const Weight*, List> lists_;
};

}  // namespace octavo::cuda
