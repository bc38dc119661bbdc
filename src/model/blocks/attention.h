// Attention over grouped heads: one projection to q, k and v, kv_write, attention over pages, output projection.
// A layer that shares an earlier one's cache projects q alone and reads what that layer has written in this step.
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
  int shared_with = -1;  // the layer whose cache is read; -1: this layer keeps its own
  float scale = 0;       // of scores; 0: head_dim^-1/2
  bool bias = false;     // on q, k, v and o
  bool sinks = false;    // one more logit a query head: SELF_ATTN.sinks
  bool qk_norm = false;  // RMSNorm over each head of q and k, before rope
  bool v_norm = false;   // and of v, without a weight
  bool gated = false;    // q_proj gives each head its query, then a gate: output * sigmoid(gate)
  bool norm_rounded_first = true;
  float norm_offset = 0;      // added to the weights of q's and k's norm
  bool value_is_key = false;  // v is what k_proj gives, before k's norm and rope
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
  bool shares() const { return config_.shared_with >= 0; }
  Tensor project(Step& step, const Tensor& x, const Weight& weight, const Tensor& bias) const;

  AttentionConfig config_;
  RankOf rank_;
  int q_heads_;  // of this rank
  int kv_heads_;
  Weight gated_q_;   // [2 q_heads head_dim, hidden], or empty: q is a part of qkv
  Weight qkv_;       // [(q_heads + 2 kv_heads) head_dim, hidden]; without what is another's
  Tensor qkv_bias_;  // f32 or empty
  Weight output_;    // [hidden, q_heads head_dim]
  Tensor output_bias_;
  Tensor sinks_;  // f32 [q_heads] or empty
  std::optional<Norm> q_norm_;
  std::optional<Norm> k_norm_;
  NormRule v_rule_;
  KvScales kv_scales_;
};

}  // namespace octavo
