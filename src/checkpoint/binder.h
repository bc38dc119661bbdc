// Binder: the visitor that joins a model's weights to names. A model lists each weight once in `visit(Binder&)`; the same
// walk loads a checkpoint, fills dummies, or writes scales back.
//
// Names are those of Hugging Face's checkpoints, without ".weight". A binder that reads another container translates them
// (NameMap, given by the family). Tensor parallel: each request says how it is cut; the binder of rank r hands out its share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"
#include "checkpoint/scales.h"
#include "tensor/device.h"
#include "tensor/weight.h"

namespace octavo {

// How ranks share a matrix [out, in].
enum class Cut : std::uint8_t {
  none,     // every rank holds all of it
  rows,     // of `out`, in units (one head, say); fewer units than ranks: neighbouring ranks hold the same unit
  columns,  // of `in`; the product is a partial sum
};

struct PartRequest {
  std::string name;       // "model.layers.0.self_attn.q_proj"
  std::int64_t out = 0;   // rows of the whole part
  Cut cut = Cut::none;
  std::int64_t unit = 1;  // rows (or columns) that stay together
  // Several parts may lie in one tensor: this one is its rows [first, first + out) of tensor_out. 0: it is all of it.
  std::int64_t first = 0;
  std::int64_t tensor_out = 0;
  bool looked_up = false;  // an embedding: its rows are read one by one, and products only if multiply_too() says so

  std::int64_t rows_of_tensor() const { return tensor_out > 0 ? tensor_out : out; }
};

// One stack of parts for every expert of a layer: W_e [sum(out), in], e = 0 .. count - 1. A checkpoint has a tensor for
// each part of each expert ("PREFIX.3.gate_proj.weight"), or one of all experts for each part ("PREFIX.gate_proj",
// [count, out, in]), or one for all parts of all experts ("PREFIX.gate_up_proj", [count, sum(out), in]), which may be
// packed as MXFP4 ("..._blocks" and "..._scales").
struct ExpertsRequest {
  std::string prefix;              // "model.layers.0.mlp.experts"
  int count = 0;
  std::vector<PartRequest> parts;  // named within an expert: "gate_proj", "up_proj"
  std::int64_t in = 0;
  std::string stacked;             // "gate_up_proj"
  bool transposed = false;         // tensors of all experts are [count, in, out] where they are not packed

  std::int64_t out() const {
    std::int64_t sum = 0;
    for (const PartRequest& part : parts) sum += part.out;
    return sum;
  }
};

class Binder {
 public:
  virtual ~Binder() = default;

  // A stack of linear weights over the same input, W [sum(out), in]. Errors name tensor, expected and found shape.
  virtual Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) = 0;

  // What was bound to be looked up is multiplied as well: a tied head.
  virtual Status multiply_too(Weight&) { return {}; }

  // target: a Weight for each expert, as weight() would make it.
  virtual Status experts(std::vector<Weight>& target, const ExpertsRequest& request) = 0;

  // The biases of these experts, f32 [count, sum(out)]: "PREFIX.gate_up_proj_bias", or each part's own.
  virtual Status expert_biases(Tensor& target, const ExpertsRequest& request) = 0;

  // Vectors (norms, biases, sinks) one after the other, kept as f32: [sum(out)]. Names are full ("model.norm.weight").
  // cut: none or rows.
  virtual Status vectors(Tensor& target, std::span<const PartRequest> parts) = 0;
  Status vector(Tensor& target, const std::string& name, std::int64_t n) {
    const PartRequest part{name, n};
    return vectors(target, {&part, 1});
  }

  // The weights of a convolution of each channel by itself, a tensor stored [channels, 1, taps] or some parts of it
  // (`out` counts channels), kept as f32 [sum(out), taps].
  virtual Status depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) = 0;

  // A table that the model computed itself (rope frequencies): f32 [values.size()] on the device.
  virtual Status constant(Tensor& target, std::span<const float> values) = 0;

  // Whether the checkpoint has this tensor (full name), for weights that may be absent (biases, a tied head).
  virtual bool has(const std::string& name) const = 0;

  // The KV scales of one attention; all fields empty when the checkpoint has none. Already cut to this rank's heads.
  virtual Result<StoredScales> kv_scales(const std::string& prefix, int q_heads, int kv_heads) = 0;
};

struct RankOf {
  int rank = 0;
  int size = 1;
};

// How a container spells the names and orders the rows of one family.
struct NameMap {
  // Hugging Face's full name -> the container's, empty when the container never has it. Null: equal names.
  std::function<std::string(const std::string& name)> file_name;
  // Rows of one head if the container stores this tensor's rotary rows as adjacent pairs (2i = row i, 2i + 1 = row i + D/2):
  // they are put back into half-split order at load. 0: natural order. `name` is the full one, with ".weight" or ".bias".
  std::function<int(const std::string& name)> paired_rows;
  // Tensors that a loader may leave unread without a word (vision towers, rotary buffers). By the container's name.
  std::function<bool(const std::string& name)> ignorable;
};

// Loads from a checkpoint. Weights stay as stored: mapped memory is adopted by the device; rows that must move are copied.
class CheckpointBinder final : public Binder {
 public:
  // prepare: for each weight that is multiplied, once it is bound (Backend::prepare()); null: nothing.
  using Prepare = std::function<Status(Weight&)>;
  CheckpointBinder(const Checkpoint& checkpoint, const Quantization& quantization, NameMap names, Device& device, RankOf rank,
                   Prepare prepare = {});
  ~CheckpointBinder() override;

  Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) override;
  Status multiply_too(Weight& weight) override;
  Status experts(std::vector<Weight>& target, const ExpertsRequest& request) override;
  Status expert_biases(Tensor& target, const ExpertsRequest& request) override;
  Status vectors(Tensor& target, std::span<const PartRequest> parts) override;
  Status depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) override;
  Status constant(Tensor& target, std::span<const float> values) override;
  bool has(const std::string& name) const override;
  Result<StoredScales> kv_scales(const std::string& prefix, int q_heads, int kv_heads) override;

  // After the walk: a scale tensor that no request used is an error; other unread tensors are reported in one line.
  Status finish() const;
  // Everything the device holds for the weights; the model's tensors look into it.
  std::vector<Buffer> take_buffers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// In what a dummy of this name is kept: e4m3 for the matrices of layers where the config tells of FP8 weights, e2m1 for
// experts where it tells of MXFP4, else bf16.
DType dummy_dtype(const Quantization& quantization, const std::string& name);

// Fills weights on the device with numbers from a seed (uniform in +-0.035, norms 1), the same on every device:
// `--load-format dummy`.
class DummyBinder final : public Binder {
 public:
  DummyBinder(Device& device, RankOf rank, std::uint64_t seed, Quantization quantization = {});
  ~DummyBinder() override;

  Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) override;
  Status experts(std::vector<Weight>& target, const ExpertsRequest& request) override;
  Status expert_biases(Tensor& target, const ExpertsRequest& request) override;
  Status vectors(Tensor& target, std::span<const PartRequest> parts) override;
  Status depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) override;
  Status constant(Tensor& target, std::span<const float> values) override;
  bool has(const std::string& name) const override;
  Result<StoredScales> kv_scales(const std::string& prefix, int q_heads, int kv_heads) override;
  std::vector<Buffer> take_buffers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octavo
