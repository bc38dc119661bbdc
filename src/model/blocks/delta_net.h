// DeltaNet: the gated delta net. Projections to q, k, v, a gate and two numbers a head; a short convolution over time;
// the delta rule on a state of each head; a norm of each head, gated; output projection. What it keeps of a sequence is
// a record of two parts, both float32: the convolution's last inputs and the states. Ranks share its heads, and what
// they keep; key heads that are fewer than ranks are held by several.
#pragma once

#include <string>
#include <vector>

#include "model/blocks/norm.h"

namespace octavo {

struct DeltaNetConfig {
  int layer = 0;
  int hidden = 0;
  int key_heads = 0;
  int value_heads = 0;  // a multiple of key_heads
  int key_dim = 0;      // of a head
  int value_dim = 0;
  int taps = 0;  // of the convolution
  float norm_eps = 1e-6f;

  std::int64_t channels() const { return 2 * keys() + values(); }
  std::int64_t keys() const { return std::int64_t{key_heads} * key_dim; }
  std::int64_t values() const { return std::int64_t{value_heads} * value_dim; }
  // Numbers of each part of a sequence's record.
  std::vector<std::int64_t> state_parts() const { return {channels() * (taps - 1), values() * key_dim}; }
  DeltaNetConfig share_of(RankOf rank) const;  // with this rank's heads
};

class DeltaNet {
 public:
  DeltaNet(const DeltaNetConfig& config, RankOf rank);

  Status visit(Binder& binder, const std::string& prefix);  // "model.layers.3.linear_attn"
  // x, out: [tokens, hidden]
  void forward(Step& step, const Tensor& x, const Tensor& out) const;

 private:
  std::vector<PartRequest> channel_parts(const std::string& name) const;
  Tensor convolve(Step& step, const Tensor& x) const;
  void mix(Step& step, const Tensor& qkv, const Tensor& gates, const Tensor& out) const;

  DeltaNetConfig whole_;
  DeltaNetConfig config_;  // of this rank, as are the shapes below
  Weight qkv_z_;           // [channels + values, hidden]
  Weight b_a_;             // [2 value_heads, hidden]
  Tensor convolution_;     // f32 [channels, taps]
  Tensor dt_bias_;         // f32 [value_heads]
  Tensor a_log_;           // f32 [value_heads]
  Norm norm_;              // of a head
  Weight output_;          // [hidden, values]
};

}  // namespace octavo
