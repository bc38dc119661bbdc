#include <algorithm>
#include <utility>

#include "checkpoint/binder.h"
#include "checkpoint/shard.h"
#include "checkpoint/weight_memory.h"
#include "tensor/random_matrix.h"

namespace octavo {
namespace {

constexpr std::int64_t kExponentReach = 32;  // numbers of e2m1 that share a scale

std::uint64_t key_of(const std::string& name, std::uint64_t seed) {
  std::uint64_t key = mixed_bits(seed + 0x9E3779B97F4A7C15u);
  for (const char c : name) key = mixed_bits(key ^ static_cast<unsigned char>(c));
  return key;
}

bool is_norm(const std::string& name) { return name.find("norm") != std::string::npos; }

}  // namespace

DType dummy_dtype(const Quantization& quantization, const std::string& name) {
  const bool quantized = quantization.scheme == WeightScheme::fp8_tensor ||
                         quantization.scheme == WeightScheme::fp8_channel ||
                         quantization.scheme == WeightScheme::fp8_block;
  if (quantization.scheme == WeightScheme::mxfp4)
    return name.find(".experts.") != std::string::npos ? DType::e2m1 : DType::bf16;
  const bool router = name.ends_with(".gate") || name.ends_with(".router");
  const bool linear_of_layer = name.find("layers.") != std::string::npos && !router;
  return quantized && linear_of_layer ? DType::e4m3 : DType::bf16;
}

struct DummyBinder::State {
  WeightMemory memory;
  RankOf rank;
  std::uint64_t seed;
  Quantization quantization;

  Result<RandomMatrix> matrix(const PartRequest& request, std::int64_t in) const;
  Result<std::vector<WeightPart>> parts(const std::vector<RandomMatrix>& matrices);
  Status add_scales(WeightPart& part);
  Status add_exponents(WeightPart& part);
};

Result<RandomMatrix> DummyBinder::State::matrix(const PartRequest& request, std::int64_t in) const {
  const DType dtype = dummy_dtype(quantization, request.name);
  OCTAVO_TRY(const Share share, share_of(request, in, rank).in(request.name));
  if (dtype == DType::e2m1) {
    OCTAVO_TRY(check_grain({0, in}, 0, kExponentReach).in(request.name));
    OCTAVO_TRY(check_grain(share.cols, in, kExponentReach).in(request.name));
  }
  return RandomMatrix{.key = key_of(request.name, seed),
                      .dtype = dtype,
                      .rows = share.rows.count,
                      .cols = share.cols.count,
                      .first = share.rows.begin * in + share.cols.begin,
                      .stride = in};
}

// All of them in one piece of memory.
Result<std::vector<WeightPart>> DummyBinder::State::parts(const std::vector<RandomMatrix>& matrices) {
  OCTAVO_TRY(const std::vector<const std::byte*> places, memory.random(matrices));
  std::vector<WeightPart> made(matrices.size());
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    made[i].values = Tensor(places[i], matrices[i].dtype, {matrices[i].rows, matrices[i].cols});
    if (matrices[i].dtype == DType::e4m3) OCTAVO_TRY(add_scales(made[i]));
    if (matrices[i].dtype == DType::e2m1) OCTAVO_TRY(add_exponents(made[i]));
  }
  return made;
}

Status DummyBinder::State::add_exponents(WeightPart& part) {
  const std::int64_t rows = part.values.size(0), cols = part.values.size(1) / kExponentReach;
  const auto fill = [&](std::int64_t, std::int64_t count, std::byte* to) {
    std::fill(to, to + count * cols, std::byte{kRandomExponent});
  };
  OCTAVO_TRY(const std::byte* data, memory.make(rows, cols, fill));
  part.grain = ScaleGrain::block;
  part.block_rows = 1;
  part.block_cols = kExponentReach;
  part.scale = Tensor(data, DType::e8m0, {rows, cols});
  return {};
}

// One number for all, in the shape that the scheme has.
Status DummyBinder::State::add_scales(WeightPart& part) {
  const auto blocks = [](std::int64_t n, int size) { return (n + size - 1) / size; };
  std::int64_t rows = 1, cols = 1;
  if (quantization.scheme == WeightScheme::fp8_channel) {
    part.grain = ScaleGrain::channel;
    rows = part.values.size(0);
  } else if (quantization.scheme == WeightScheme::fp8_block) {
    part.grain = ScaleGrain::block;
    part.block_rows = quantization.block_rows;
    part.block_cols = quantization.block_cols;
    rows = blocks(part.values.size(0), part.block_rows);
    cols = blocks(part.values.size(1), part.block_cols);
  } else {
    part.grain = ScaleGrain::tensor;
  }
  const std::vector<float> scales(static_cast<std::size_t>(rows * cols), kRandomScale);
  OCTAVO_TRY(const std::byte* data, memory.floats(scales));
  part.scale =
      part.grain == ScaleGrain::block ? Tensor(data, DType::f32, {rows, cols}) : Tensor(data, DType::f32, {rows});
  return {};
}

DummyBinder::DummyBinder(Device& device, RankOf rank, std::uint64_t seed, Quantization quantization)
    : state_(new State{WeightMemory(device), rank, seed, std::move(quantization)}) {}

DummyBinder::~DummyBinder() = default;

Status DummyBinder::weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) {
  Weight weight;
  std::vector<RandomMatrix> matrices;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(const RandomMatrix matrix, state_->matrix(request, in));
    weight.out += matrix.rows;
    weight.in = matrix.cols;
    matrices.push_back(matrix);
  }
  OCTAVO_TRY(weight.parts, state_->parts(matrices));
  target = std::move(weight);
  return {};
}

Status DummyBinder::experts(std::vector<Weight>& target, const ExpertsRequest& request) {
  std::vector<RandomMatrix> matrices;
  for (int expert = 0; expert < request.count; ++expert)
    for (PartRequest part : request.parts) {
      part.name = request.prefix + "." + std::to_string(expert) + "." + part.name;
      OCTAVO_TRY(const RandomMatrix matrix, state_->matrix(part, request.in));
      matrices.push_back(matrix);
    }
  OCTAVO_TRY(std::vector<WeightPart> parts, state_->parts(matrices));
  std::vector<Weight> experts(static_cast<std::size_t>(request.count));
  auto next = parts.begin();
  for (Weight& expert : experts)
    for (std::size_t i = 0; i < request.parts.size(); ++i, ++next) {
      expert.out += next->values.size(0);
      expert.in = next->values.size(1);
      expert.parts.push_back(std::move(*next));
    }
  target = std::move(experts);
  return {};
}

Status DummyBinder::expert_biases(Tensor& target, const ExpertsRequest& request) {
  std::vector<PartRequest> names;
  for (int expert = 0; expert < request.count; ++expert)
    for (PartRequest part : request.parts) {
      part.name = request.prefix + "." + std::to_string(expert) + "." + part.name + ".bias";
      if (part.cut == Cut::columns) part.cut = Cut::none;
      names.push_back(part);
    }
  OCTAVO_TRY(vectors(target, names));
  target = target.reshaped({request.count, target.elements() / request.count});
  return {};
}

Status DummyBinder::vectors(Tensor& target, std::span<const PartRequest> parts) {
  std::vector<float> stacked;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(const Share share, share_of(request, 1, state_->rank).in(request.name));
    const std::int64_t count = share.rows.count;
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count), bf16_from_f32(1.0f));
    if (!is_norm(request.name))
      make_random_rows({.key = key_of(request.name, state_->seed), .rows = 1, .cols = count, .first = share.rows.begin},
                       0, 1, reinterpret_cast<std::byte*>(bits.data()));
    for (const std::uint16_t number : bits) stacked.push_back(f32_from_bf16(number));
  }
  return constant(target, stacked);
}

Status DummyBinder::depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) {
  std::vector<PartRequest> numbers(parts.begin(), parts.end());
  for (PartRequest& part : numbers)
    for (std::int64_t* count : {&part.out, &part.unit, &part.first, &part.tensor_out}) *count *= taps;
  OCTAVO_TRY(vectors(target, numbers));
  target = target.reshaped({target.elements() / taps, taps});
  return {};
}

Status DummyBinder::constant(Tensor& target, std::span<const float> values) {
  OCTAVO_TRY(const std::byte* data, state_->memory.floats(values));
  target = Tensor(data, DType::f32, {static_cast<std::int64_t>(values.size())});
  return {};
}

bool DummyBinder::has(const std::string&) const { return false; }

Result<StoredScales> DummyBinder::kv_scales(const std::string&, int, int) { return StoredScales(); }

std::vector<Buffer> DummyBinder::take_buffers() { return state_->memory.take_buffers(); }

}  // namespace octavo
