// WeightMeter: walks a model's weights as dummies and counts their bytes, so that memory is refused before any is
// taken.
#pragma once

#include <utility>

#include "checkpoint/binder.h"

namespace octavo {

class WeightMeter final : public Binder {
 public:
  explicit WeightMeter(Quantization quantization = {}) : quantization_(std::move(quantization)) {}
  Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) override;
  Status experts(std::vector<Weight>& target, const ExpertsRequest& request) override;
  Status expert_biases(Tensor& target, const ExpertsRequest& request) override;
  Status vectors(Tensor& target, std::span<const PartRequest> parts) override;
  Status depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) override;
  Status constant(Tensor& target, std::span<const float> values) override;
  bool has(const std::string& name) const override;
  Result<StoredScales> kv_scales(const std::string& prefix, int q_heads, int kv_heads) override;

  std::size_t bytes() const { return bytes_; }

 private:
  Quantization quantization_;
  std::size_t bytes_ = 0;
};

}  // namespace octavo
