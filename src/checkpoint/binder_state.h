// What a CheckpointBinder knows while it walks: the checkpoint, which of its tensors were used, and the memory of the
// device. For the files that make up the binder alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/binder.h"
#include "checkpoint/shard.h"
#include "checkpoint/weight_memory.h"

namespace octavo {

// "FILE: tensor "NAME" WHAT".
Error tensor_error(const StoredTensor& tensor, const std::string& what, ErrorKind kind = ErrorKind::invalid);
Status check_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& expected);
// Whether kernels read a weight in this dtype.
Status check_weight_dtype(const StoredTensor& tensor);

struct CheckpointBinder::State {
  const Checkpoint& checkpoint;
  Quantization quantization;
  NameMap names;
  RankOf rank;
  WeightMemory memory;
  Prepare prepare;
  std::set<const std::byte*> mapped;               // values that stayed where the file is mapped
  std::vector<bool> used;                          // by position in checkpoint.tensors()
  std::map<float, const std::byte*> input_scales;  // equal ones once: parts that share theirs are one product
  std::vector<std::string> attention_prefixes;     // whose KV scales were asked for, sorted at the end

  std::string file_name(const std::string& name) const { return names.file_name ? names.file_name(name) : name; }

  const StoredTensor* find(const std::string& name) const {
    const std::string in_file = file_name(name);
    return in_file.empty() ? nullptr : checkpoint.find(in_file);
  }

  const StoredTensor* use(const std::string& name) {
    const StoredTensor* tensor = find(name);
    if (tensor != nullptr) used[static_cast<std::size_t>(tensor - checkpoint.tensors().data())] = true;
    return tensor;
  }

  Result<const StoredTensor*> require(const std::string& name);
  // A matrix of 4-bit integers with a scale for each 32 of a row, from NAME.weight_packed (int4_weights.cc).
  Result<WeightPart> int4_part(const PartRequest& request, std::int64_t in);
  Result<std::vector<std::uint16_t>> half_scales(const StoredTensor& tensor) const;
  Result<std::int64_t> paired_rows(const std::string& name, std::int64_t rows) const;
  Result<WeightPart> part(const PartRequest& request, std::int64_t in);
  Status stack(Weight& target, std::span<const PartRequest> parts, std::int64_t in);
  Status append_vector(std::vector<float>& stacked, const PartRequest& request);
  // Rows and columns of a tensor [out, in] on the device.
  Result<Tensor> values(const StoredTensor& tensor, Range rows, Range cols, std::int64_t paired);
  Status add_scales(WeightPart& part, const PartRequest& request, std::int64_t in, Range rows, Range cols,
                    std::int64_t paired);

  // Of experts (expert_weights.cc). A tensor of all experts is [count, out, in], or [count, in, out] transposed.
  struct ExpertShare {
    std::int64_t expert = 0;
    std::int64_t out = 0;  // rows of one expert in the tensor
    Range rows = {};       // of them
    std::int64_t in = 0;
    Range cols = {};
    bool transposed = false;
  };
  Result<std::vector<float>> finite_floats(const StoredTensor& tensor) const;
  Status separate_experts(std::vector<Weight>& target, const ExpertsRequest& request);
  Status stacked_experts(std::vector<Weight>& target, const ExpertsRequest& request, const PartRequest& part,
                         const std::string& name, std::int64_t first, std::int64_t out);
  Result<WeightPart> expert_part(const StoredTensor& tensor, const ExpertShare& share);
  Result<WeightPart> packed_expert_part(const StoredTensor& blocks, const StoredTensor& scales,
                                        const ExpertShare& share);
  Result<WeightPart> unpaired_expert_part(const StoredTensor& one, const ExpertShare& share);
  Result<Tensor> turned_values(const StoredTensor& tensor, const ExpertShare& share);
  Result<std::vector<float>> expert_bias(const std::string& name, int count, std::int64_t out);
};

}  // namespace octavo
