#include "model/blocks/decoder.h"

namespace octavo {
namespace {

std::variant<Mlp, Moe> make_mlp(const DecoderConfig& config, std::size_t layer, RankOf rank) {
  if (!config.moe.empty() && config.moe[layer]) return Moe(*config.moe[layer], rank);
  return Mlp(config.dense.hidden, config.dense.intermediate, config.dense.mlp_bias, rank);
}

}  // namespace

Decoder::Decoder(const DecoderConfig& config, RankOf rank)
    : config_(config),
      embedding_(config.dense.vocab, config.dense.hidden),
      norm_out_(config.dense.hidden, config.dense.norm_eps, config.norm_rounded_first),
      head_(config.dense.vocab, config.dense.hidden) {
  const DenseConfig& dense = config.dense;
  const Norm norm(dense.hidden, dense.norm_eps, config.norm_rounded_first);
  for (int i = 0; i < dense.num_layers; ++i) {
    const AttentionConfig attention{.layer = i,
                                    .hidden = dense.hidden,
                                    .q_heads = dense.q_heads,
                                    .kv_heads = dense.kv_heads,
                                    .head_dim = dense.head_dim,
                                    .window = config.windows[static_cast<std::size_t>(i)],
                                    .bias = dense.attention_bias,
                                    .sinks = config.sinks,
                                    .qk_norm = config.qk_norm,
                                    .norm_eps = dense.norm_eps};
    layers_.push_back({norm, Attention(attention, rank), norm, make_mlp(config, static_cast<std::size_t>(i), rank)});
  }
}

Status Decoder::visit(Binder& binder, const std::string& prefix) {
  OCTAVO_TRY(embedding_.visit(binder, prefix + ".embed_tokens"));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = prefix + ".layers." + std::to_string(i);
    OCTAVO_TRY(layers_[i].norm_in.visit(binder, name + ".input_layernorm"));
    OCTAVO_TRY(layers_[i].attention.visit(binder, name + ".self_attn"));
    OCTAVO_TRY(layers_[i].norm_mid.visit(binder, name + ".post_attention_layernorm"));
    OCTAVO_TRY(std::visit([&](auto& mlp) { return mlp.visit(binder, name + ".mlp"); }, layers_[i].mlp));
  }
  OCTAVO_TRY(norm_out_.visit(binder, prefix + ".norm"));
  OCTAVO_TRY(head_.visit(binder, embedding_, config_.dense.tied));
  const RopeTable table = make_rope(config_.rope, config_.dense.head_dim);
  rope_.factor = table.factor;
  return binder.constant(rope_.inv_freq, table.inv_freq);
}

Tensor Decoder::forward(Step& step) {
  const std::int64_t tokens = step.batch.num_tokens;
  // The residual stream stays in float32: rounded after every block, its errors would add up over the layers.
  const Tensor residual = step.arena.take(DType::f32, {tokens, config_.dense.hidden});
  const Tensor x = step.take(tokens, config_.dense.hidden);
  const Tensor delta = step.take(tokens, config_.dense.hidden);

  embedding_.lookup(step, residual);
  layers_.front().norm_in.apply(step, residual, x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    layer.attention.forward(step, rope_, x, delta);
    layer.norm_mid.add_apply(step, delta, residual, x);
    std::visit([&](const auto& mlp) { mlp.forward(step, x, delta); }, layer.mlp);
    const Norm& next = i + 1 < layers_.size() ? layers_[i + 1].norm_in : norm_out_;
    next.add_apply(step, delta, residual, x);
  }
  return head_.logits(step, x);
}

std::vector<KvScales> Decoder::kv_scales() const {
  std::vector<KvScales> scales;
  for (const Layer& layer : layers_) scales.push_back(layer.attention.kv_scales());
  return scales;
}

Result<ModelSpec> decoder_spec(const DecoderConfig& config, RankOf rank, ModelSpec spec) {
  const DenseConfig& dense = config.dense;
  const bool kv_divides = dense.kv_heads % rank.size == 0 || rank.size % dense.kv_heads == 0;
  if (dense.q_heads % rank.size != 0 || !kv_divides || dense.intermediate % rank.size != 0)
    return Error("tensor parallel size " + std::to_string(rank.size) + " does not divide " +
                 std::to_string(dense.q_heads) + " heads, " + std::to_string(dense.kv_heads) +
                 " KV heads and an MLP of " + std::to_string(dense.intermediate));
  for (const auto& moe : config.moe)
    if (moe && moe->intermediate % rank.size != 0)
      return Error("tensor parallel size " + std::to_string(rank.size) + " does not divide experts of " +
                   std::to_string(moe->intermediate));
  for (const auto& moe : config.moe)
    if (moe) {
      spec.experts = moe->experts;
      spec.experts_per_token = moe->per_token;
    }
  spec.hidden = dense.hidden;
  spec.vocab = dense.vocab;
  spec.max_positions = rope_max_positions(config.rope, dense.max_positions);
  spec.rope = describe(config.rope);
  spec.tied = dense.tied;
  for (int i = 0; i < dense.num_layers; ++i) {
    LayerSpec layer;
    layer.window = config.windows[static_cast<std::size_t>(i)];
    layer.kind = layer.window > 0 ? "sliding_window" : "full_attention";
    layer.q_heads = dense.q_heads;
    layer.kv_heads = dense.kv_heads;
    layer.head_dim = dense.head_dim;
    layer.value_dim = dense.head_dim;
    layer.sinks = config.sinks;
    spec.layers.push_back(layer);
  }
  return spec;
}

}  // namespace octavo
