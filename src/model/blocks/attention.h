// Attention over grouped heads: one projection to q, k and v, kv_write, attention over pages, output projection.
// Shapes are this rank's; with more than one rank the output is summed in plain sight.
#pragma once

#include <optional>
#include <string>

#include "model/blocks/norm.h"

namespace octavo {

struct AttentionConfig {
  int layer = 0;
  int hidden = 0;
  int q_heads = 0;  // of the whole model
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  bool bias = false;     // on q, k, v and o
  bool qk_norm = false;  // RMSNorm over each head of q and k, before rope
  float norm_eps = 1e-6f;
};

class Attention {
 public:
  Attention(const AttentionConfig& config, RankOf rank);

  Status visit(Binder& binder, const std::string& prefix);  // "model.layers.3.self_attn"
  // x, out: [tokens, hidden]
  void forward(Step& step, const RopeRule& rope, const Tensor& x, const Tensor& out) const;

  const KvScales& kv_scales() const { return kv_scales_; }

 private:
  AttentionConfig config_;
  RankOf rank_;
  int q_heads_;  // of this rank
  int kv_heads_;
  Weight qkv_;       // [(q_heads + 2 kv_heads) head_dim, hidden]
  Tensor qkv_bias_;  // f32 or empty
  Weight output_;    // [hidden, q_heads head_dim]
  Tensor output_bias_;
  std::optional<Norm> q_norm_;
  std::optional<Norm> k_norm_;
  KvScales kv_scales_;
};

}  // namespace octavo
