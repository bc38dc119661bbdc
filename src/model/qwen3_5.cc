// Qwen3.5, the text part: most layers are gated delta nets, the others attend with a gate on their output and rotate a
// quarter of each head. Norms weigh by 1 + w. models.md section 5.

#include "model/decoder_model.h"
#include "model/family.h"
#include "model/qwen3_5_config.h"
#include "model/split.h"
#include "model/tensor_names.h"

namespace octavo {
namespace {

constexpr std::string_view kWithTowers = "Qwen3_5ForConditionalGeneration";

Attention attention_of(const DenseConfig& dense, int layer, RankOf rank) {
  return Attention({.layer = layer,
                    .hidden = dense.hidden,
                    .q_heads = dense.q_heads,
                    .kv_heads = dense.kv_heads,
                    .head_dim = dense.head_dim,
                    .qk_norm = true,
                    .gated = true,
                    .norm_rounded_first = false,
                    .norm_offset = 1,
                    .norm_eps = dense.norm_eps},
                   rank);
}

DeltaNet delta_net_of(DeltaNetConfig config, int layer, RankOf rank) {
  config.layer = layer;
  return DeltaNet(config, rank);
}

DecoderStack::Layer layer_of(const Qwen35Config& config, int number, RankOf rank) {
  const DenseConfig& dense = config.dense;
  const Mlp mlp(dense.hidden, dense.intermediate, false, rank);
  if (config.recurrent[static_cast<std::size_t>(number)]) return {delta_net_of(config.delta, number, rank), mlp};
  return {attention_of(dense, number, rank), mlp};
}

Status check_ranks(const Qwen35Config& config, RankOf rank) {
  OCTAVO_TRY(check_even(rank, config.dense.q_heads, "query heads"));
  OCTAVO_TRY(check_heads(rank, config.dense.kv_heads, "KV heads"));
  OCTAVO_TRY(check_even(rank, config.delta.value_heads, "value heads of a linear layer"));
  OCTAVO_TRY(check_heads(rank, config.delta.key_heads, "key heads of a linear layer"));
  return check_even(rank, config.dense.intermediate, "intermediate numbers of an MLP");
}

ModelSpec qwen3_5_spec(const Qwen35Config& config, const DecoderFrame& frame, ModelSpec facts) {
  const DenseConfig& dense = config.dense;
  ModelSpec spec = frame_spec(frame, dense.max_positions, std::move(facts));
  for (const bool recurrent : config.recurrent) {
    LayerSpec& layer = spec.layers.emplace_back();
    if (recurrent) {
      layer.kind = "linear_attention";
      layer.cache = CacheKind::state;
      layer.state_parts = config.delta.share_of(frame.rank).state_parts();
      continue;
    }
    layer.q_heads = dense.q_heads;
    layer.kv_heads = dense.kv_heads;
    layer.head_dim = layer.value_dim = dense.head_dim;
  }
  return spec;
}

// A file with towers keeps the text part's tensors under a name of their own. The layer that predicts further tokens
// is not computed.
NameMap qwen3_5_names(bool with_towers) {
  NameMap names;
  if (with_towers) names.file_name = name_beside_towers;
  names.ignorable = [](const std::string& name) {
    return name.starts_with("model.visual.") || name.starts_with("mtp.");
  };
  return names;
}

Result<std::unique_ptr<Model>> make_qwen3_5(const FamilyInput& input) {
  OCTAVO_TRY(const Qwen35Config config, read_qwen3_5_config(input.config));
  OCTAVO_TRY(check_ranks(config, input.rank));
  const bool with_towers = input.facts.architecture == kWithTowers;
  const DenseConfig& dense = config.dense;
  DecoderFrame frame{.rank = input.rank,
                     .vocab = dense.vocab,
                     .hidden = dense.hidden,
                     .tied = dense.tied,
                     .norm = Norm(dense.hidden, dense.norm_eps, false, 1),
                     .rope = config.rope,
                     .rope_width = dense.head_dim};
  std::vector<DecoderStack::Layer> layers;
  for (int i = 0; i < dense.num_layers; ++i) layers.push_back(layer_of(config, i, input.rank));
  ModelSpec spec = qwen3_5_spec(config, frame, input.facts);
  return std::unique_ptr<Model>(std::make_unique<DecoderModel>(std::move(spec), qwen3_5_names(with_towers),
                                                               DecoderStack(std::move(frame), std::move(layers))));
}

}  // namespace

Family qwen3_5_family() { return {"qwen3_5", "Qwen3.5", {kWithTowers, "Qwen3_5ForCausalLM"}, "", make_qwen3_5}; }

}  // namespace octavo
