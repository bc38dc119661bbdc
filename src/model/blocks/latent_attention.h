// LatentAttention (MLA): the cache keeps one latent and one rope key for all heads. Either queries are turned into the
// latents' space by W_UK and results out of it by W_UV (the absorbed form: decodes always), or keys and values of every
// head are made of the cached latents (the expanded form: chunks of prompts where the wing finds that cheaper). A step
// may have rows of both. models.md section 8.
#pragma once

#include <string>

#include "model/blocks/norm.h"

namespace octavo {

struct LatentAttentionConfig {
  int layer = 0;
  int hidden = 0;
  int q_heads = 0;  // of the whole model
  int q_rank = 0;   // width between the query's two projections; 0: one projection
  int latent = 0;   // kv_lora_rank
  int nope = 0;     // of a head: numbers of key and query without rope
  int rope = 0;     // and with it
  int value = 0;
  float scale = 1;  // of scores
  // W_UK and W_UV are tensors of their own, "k_b_proj" turned, as the absorbed form reads it: [q_heads latent, nope].
  bool up_apart = false;
};

class LatentAttention {
 public:
  LatentAttention(const LatentAttentionConfig& config, RankOf rank);

  Status visit(Binder& binder, const std::string& prefix);  // "model.layers.3.self_attn"
  // x, out: [tokens, hidden]
  void forward(Step& step, const RopeRule& rope, const Tensor& x, const Tensor& out) const;

  const KvScales& kv_scales() const { return kv_scales_; }  // key: of the latent, value: of the rope key

 private:
  // What one token gives: q [tokens, heads (nope + rope)], contiguous, and [latent | rope key] before norm and rope.
  struct Projected {
    Tensor q;
    Tensor kv;
  };
  Projected project(Step& step, const Tensor& x) const;
  HeadRows key_rows() const;    // W_UK, from latents to keys
  HeadRows value_rows() const;  // W_UV
  AttentionRule rule() const { return {.scale = config_.scale, .sinks = {}}; }
  Tensor wide_queries(Step& step, const RopeRule& rope, const Tensor& q, const Tensor& positions) const;
  void attend_absorbed(Step& step, const Query& query, const KvView& kv, const Tensor& values) const;
  void attend_expanded(Step& step, const RopeRule& rope, const Tensor& q, std::int64_t first, const KvView& kv,
                       const Tensor& values) const;

  LatentAttentionConfig config_;
  RankOf rank_;
  int q_heads_;    // of this rank
  Weight down_;    // [q_rank + latent + rope, hidden]; without q_rank where the query has one projection
  Weight q_up_;    // [q_heads (nope + rope), q_rank or hidden]
  Weight kv_up_;   // [q_heads (nope + value), latent]: of each head W_UK, then W_UV; apart: [q_heads latent, nope]
  Weight v_up_;    // apart: [q_heads value, latent]
  Weight output_;  // [hidden, q_heads value]
  Norm q_norm_;
  Norm latent_norm_;
  KvScales kv_scales_;
};

}  // namespace octavo
