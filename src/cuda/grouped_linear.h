// GroupedLinear: the verb `grouped_linear` on the GPU: in tiles of choices of one expert (grouped_tiles.h), and where
// they do not serve plain: a warp a number, whatever expert its row chose. The list of a layer's experts is brought to
// the GPU the first time it is seen and found again by where it lies on the host, so a step that was run once can be
// recorded. All lists have their room when this is made.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

class GroupedLinear {
 public:
  static constexpr std::size_t kMaxExperts = std::size_t{1} << 17;  // parts of experts, of all layers

  // `scratch`: device memory that is used while a product runs, of at least a few hundred rows of results in float32.
  // Deterministic: a row is computed in one way, whatever else is in the step.
  static Result<GroupedLinear> create(Device& device, std::span<std::byte> scratch, bool deterministic);

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
    std::size_t first = 0;        // in table_
    bool tiles = false;           // whether grouped_tiles() serves them
  };

  GroupedLinear(Device& device, Buffer table, std::span<std::byte> scratch, bool deterministic)
      : device_(&device), table_(std::move(table)), scratch_(scratch), deterministic_(deterministic) {}
  const List& list_of(std::span<const Weight> experts);

  Device* device_;
  Buffer table_;  // PartView [kMaxExperts]
  std::span<std::byte> scratch_;
  bool deterministic_;
  std::size_t used_ = 0;
  std::map<const Weight*, List> lists_;
};

}  // namespace octavo::cuda
