#include <utility>

#include "checkpoint/binder.h"
#include "checkpoint/shard.h"
#include "checkpoint/weight_memory.h"
#include "tensor/random_matrix.h"

namespace octavo {
namespace {

std::uint64_t key_of(const std::string& name, std::uint64_t seed) {
  std::uint64_t key = mixed_bits(seed + 0x9E3779B97F4A7C15u);
  for (const char c : name) key = mixed_bits(key ^ static_cast<unsigned char>(c));
  return key;
}

bool is_norm(const std::string& name) { return name.find("norm") != std::string::npos; }

struct Share {
  Range rows, cols;
};

Result<Share> share_of(const PartRequest& request, std::int64_t in, RankOf rank) {
  Share share{{0, request.out}, {0, in}};
  if (request.cut == Cut::rows) {
    OCTAVO_TRY(share.rows, cut_range(request.out, request.unit, rank, true).in(request.name));
  }
  if (request.cut == Cut::columns) {
    OCTAVO_TRY(share.cols, cut_range(in, request.unit, rank, false).in(request.name));
  }
  return share;
}

}  // namespace

DType dummy_dtype(const Quantization& quantization, const std::string& name) {
  const bool quantized = quantization.scheme == WeightScheme::fp8_tensor ||
                         quantization.scheme == WeightScheme::fp8_channel ||
                         quantization.scheme == WeightScheme::fp8_block;
  const bool linear_of_layer = name.find("layers.") != std::string::npos && !name.ends_with(".gate");
  return quantized && linear_of_layer ? DType::e4m3 : DType::bf16;
}

struct DummyBinder::State {
  WeightMemory memory;
  RankOf rank;
  std::uint64_t seed;
  Quantization quantization;

  Status add_scales(WeightPart& part);
};

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
    OCTAVO_TRY(const Share share, share_of(request, in, state_->rank));
    matrices.push_back({.key = key_of(request.name, state_->seed),
                        .dtype = dummy_dtype(state_->quantization, request.name),
                        .rows = share.rows.count,
                        .cols = share.cols.count,
                        .first = share.rows.begin * in + share.cols.begin,
                        .stride = in});
    weight.out += share.rows.count;
    weight.in = share.cols.count;
  }
  OCTAVO_TRY(const std::vector<const std::byte*> places, state_->memory.random(matrices));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    WeightPart part;
    part.values = Tensor(places[i], matrices[i].dtype, {matrices[i].rows, matrices[i].cols});
    if (matrices[i].dtype == DType::e4m3) OCTAVO_TRY(state_->add_scales(part));
    weight.parts.push_back(std::move(part));
  }
  target = std::move(weight);
  return {};
}

Status DummyBinder::vectors(Tensor& target, std::span<const PartRequest> parts) {
  std::vector<float> stacked;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(const Share share, share_of(request, 1, state_->rank));
    const std::int64_t count = share.rows.count;
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count), bf16_from_f32(1.0f));
    if (!is_norm(request.name))
      make_random_rows({.key = key_of(request.name, state_->seed), .rows = 1, .cols = count, .first = share.rows.begin},
                       0, 1, reinterpret_cast<std::byte*>(bits.data()));
    for (const std::uint16_t number : bits) stacked.push_back(f32_from_bf16(number));
  }
  return constant(target, stacked);
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
