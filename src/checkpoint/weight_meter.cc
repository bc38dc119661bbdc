#include "checkpoint/weight_meter.h"

namespace octavo {

Status WeightMeter::weight(Weight&, std::span<const PartRequest> parts, std::int64_t in) {
  for (const PartRequest& part : parts)
    bytes_ += static_cast<std::size_t>(dtype_bytes(dummy_dtype(quantization_, part.name), part.out * in));
  return {};
}

Status WeightMeter::experts(std::vector<Weight>&, const ExpertsRequest& request) {
  for (const PartRequest& part : request.parts) {
    const DType dtype = dummy_dtype(quantization_, request.prefix + "." + part.name);
    const std::int64_t numbers = request.count * part.out * request.in;
    bytes_ += static_cast<std::size_t>(dtype_bytes(dtype, numbers) + (dtype == DType::e2m1 ? numbers / 32 : 0));
  }
  return {};
}

Status WeightMeter::expert_biases(Tensor&, const ExpertsRequest& request) {
  bytes_ += static_cast<std::size_t>(dtype_bytes(DType::f32, request.count * request.out()));
  return {};
}

Status WeightMeter::vectors(Tensor&, std::span<const PartRequest> parts) {
  for (const PartRequest& part : parts) bytes_ += static_cast<std::size_t>(dtype_bytes(DType::f32, part.out));
  return {};
}

Status WeightMeter::depthwise(Tensor&, std::span<const PartRequest> parts, std::int64_t taps) {
  for (const PartRequest& part : parts) bytes_ += static_cast<std::size_t>(dtype_bytes(DType::f32, part.out * taps));
  return {};
}

Status WeightMeter::constant(Tensor&, std::span<const float> values) {
  bytes_ += values.size_bytes();
  return {};
}

bool WeightMeter::has(const std::string&) const { return false; }
Result<StoredScales> WeightMeter::kv_scales(const std::string&, int, int) { return StoredScales{}; }

}  // namespace octavo
