#include "model/grouped_decoder.h"

#include <algorithm>

#include "model/split.h"

namespace octavo {
namespace {

Status check_ranks(const GroupedDecoderConfig& config, RankOf rank) {
  const DenseConfig& dense = config.dense;
  OCTAVO_TRY(check_even(rank, dense.q_heads, "query heads"));
  OCTAVO_TRY(check_heads(rank, dense.kv_heads, "KV heads"));
  const auto is_dense = [](const auto& moe) { return !moe.has_value(); };
  if (config.moe.empty() || std::any_of(config.moe.begin(), config.moe.end(), is_dense))
    OCTAVO_TRY(check_even(rank, dense.intermediate, "intermediate numbers of an MLP"));
  for (const auto& moe : config.moe)
    if (moe) OCTAVO_TRY(check_even(rank, moe->intermediate, "intermediate numbers of an expert"));
  return {};
}

ModelSpec spec_of(const GroupedDecoderConfig& config, const DecoderFrame& frame, ModelSpec facts) {
  const DenseConfig& dense = config.dense;
  ModelSpec spec = frame_spec(frame, dense.max_positions, std::move(facts));
  for (const auto& moe : config.moe)
    if (moe) {
      spec.experts = moe->experts;
      spec.experts_per_token = moe->per_token;
    }
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

DecoderStack::Layer layer_of(const GroupedDecoderConfig& config, int number, RankOf rank) {
  const DenseConfig& dense = config.dense;
  const auto i = static_cast<std::size_t>(number);
  const Attention attention({.layer = number,
                             .hidden = dense.hidden,
                             .q_heads = dense.q_heads,
                             .kv_heads = dense.kv_heads,
                             .head_dim = dense.head_dim,
                             .window = config.windows[i],
                             .bias = dense.attention_bias,
                             .sinks = config.sinks,
                             .qk_norm = config.qk_norm,
                             .norm_eps = dense.norm_eps},
                            rank);
  if (!config.moe.empty() && config.moe[i]) return {attention, Moe(*config.moe[i], rank)};
  return {attention, Mlp(dense.hidden, dense.intermediate, dense.mlp_bias, rank)};
}

}  // namespace

Result<std::unique_ptr<Model>> make_grouped_decoder(const GroupedDecoderConfig& config, NameMap names, RankOf rank,
                                                    ModelSpec facts) {
  OCTAVO_TRY(check_ranks(config, rank));
  const DenseConfig& dense = config.dense;
  DecoderFrame frame{.rank = rank,
                     .vocab = dense.vocab,
                     .hidden = dense.hidden,
                     .tied = dense.tied,
                     .norm = Norm(dense.hidden, dense.norm_eps, config.norm_rounded_first),
                     .rope = config.rope,
                     .rope_width = dense.head_dim};
  std::vector<DecoderStack::Layer> layers;
  for (int i = 0; i < dense.num_layers; ++i) layers.push_back(layer_of(config, i, rank));
  ModelSpec spec = spec_of(config, frame, std::move(facts));
  return std::unique_ptr<Model>(std::make_unique<DecoderModel>(std::move(spec), std::move(names),
                                                               DecoderStack(std::move(frame), std::move(layers))));
}

}  // namespace octavo
