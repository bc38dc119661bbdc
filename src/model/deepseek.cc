// DeepSeek-V3 and its relatives (Kimi K2, the text part of Kimi K2.5): latent attention, first layers with a dense MLP,
// then experts chosen by sigmoid scores with a bias, within groups. models.md section 8.

#include <algorithm>
#include <string_view>

#include "model/decoder_model.h"
#include "model/deepseek_config.h"
#include "model/deepseek_gguf.h"
#include "model/family.h"
#include "model/split.h"
#include "model/tensor_names.h"

namespace octavo {
namespace {

constexpr std::string_view kNested = "KimiK25ForConditionalGeneration";

Status check_ranks(const DeepseekConfig& config, RankOf rank) {
  OCTAVO_TRY(check_even(rank, config.attention.q_heads, "query heads"));
  if (config.num_dense > 0) OCTAVO_TRY(check_even(rank, config.intermediate, "intermediate numbers of an MLP"));
  if (config.num_dense == config.num_layers) return {};
  return check_even(rank, config.moe.intermediate, "intermediate numbers of an expert");
}

ModelSpec spec_of(const DeepseekConfig& config, const DecoderFrame& frame, ModelSpec facts) {
  ModelSpec spec = frame_spec(frame, config.max_positions, std::move(facts));
  if (config.num_dense < config.num_layers) {
    spec.experts = config.moe.experts;
    spec.experts_per_token = config.moe.per_token;
  }
  LayerSpec layer;
  layer.cache = CacheKind::latent;
  layer.q_heads = config.attention.q_heads;
  layer.kv_heads = 1;
  layer.head_dim = config.attention.rope;
  layer.latent_dim = layer.value_dim = config.attention.latent;
  spec.layers.assign(static_cast<std::size_t>(config.num_layers), layer);
  return spec;
}

DecoderStack::Layer layer_of(const DeepseekConfig& config, int number, RankOf rank) {
  LatentAttentionConfig attention = config.attention;
  attention.layer = number;
  const LatentAttention mixer(attention, rank);
  if (number < config.num_dense) return {mixer, Mlp(config.hidden, config.intermediate, false, rank)};
  return {mixer, Moe(config.moe, rank)};
}

// Layers beyond the last are for predicting several tokens at once.
bool is_beyond(std::string_view name, int num_layers) { return layer_of_name(name).value_or(0) >= num_layers; }

// With towers, published files begin every name of the text part with "language_model."; those that the library saved
// put it behind "model.", and not before the head.
std::string nested_name(const std::string& name) { return "language_model." + name; }

NameMap names_of(const DeepseekConfig& config, const FamilyInput& input) {
  NameMap names;
  if (input.from_gguf) {
    names.file_name = deepseek_gguf_name;
    return names;
  }
  if (input.facts.architecture == kNested)
    names.file_name = input.has_tensor("model.language_model.norm.weight") ? name_beside_towers : nested_name;
  names.ignorable = [num_layers = config.num_layers](const std::string& name) {
    const std::string_view inner = std::string_view(name).substr(name.starts_with("model.") ? 6 : 0);
    return inner.starts_with("vision_tower.") || inner.starts_with("mm_projector.") ||
           name.ends_with(".rotary_emb.inv_freq") || is_beyond(name, num_layers);
  };
  return names;
}

Result<std::unique_ptr<Model>> make_deepseek(const FamilyInput& input) {
  OCTAVO_TRY(DeepseekConfig config, read_deepseek_config(input.config));
  config.attention.up_apart = input.from_gguf && !input.has_tensor("blk.0.attn_kv_b.weight");
  OCTAVO_TRY(check_ranks(config, input.rank));
  DecoderFrame frame{.rank = input.rank,
                     .vocab = config.vocab,
                     .hidden = config.hidden,
                     .tied = config.tied,
                     .norm = Norm(config.hidden, config.norm_eps),
                     .rope = config.rope,
                     .rope_width = config.attention.rope,
                     .rope_interleaved = config.interleaved};
  std::vector<DecoderStack::Layer> layers;
  for (int i = 0; i < config.num_layers; ++i) layers.push_back(layer_of(config, i, input.rank));
  ModelSpec spec = spec_of(config, frame, input.facts);
  return std::unique_ptr<Model>(std::make_unique<DecoderModel>(std::move(spec), names_of(config, input),
                                                               DecoderStack(std::move(frame), std::move(layers))));
}

}  // namespace

Family deepseek_family() {
  return {"deepseek_v3", "DeepSeek-V3, Kimi", {"DeepseekV3ForCausalLM", kNested},
          "deepseek2",   make_deepseek,       deepseek_gguf_form()};
}

}  // namespace octavo
