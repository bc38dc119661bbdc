// DeepSeek-V3 and its relatives (Kimi K2, the text part of Kimi K2.5): latent attention, first layers with a dense MLP,
// then experts chosen by sigmoid scores with a bias, within groups. models.md section 8.

#include <algorithm>
#include <charconv>
#include <string_view>
#include <variant>

#include "model/blocks/embedding.h"
#include "model/deepseek_config.h"
#include "model/family.h"

namespace octavo {
namespace {

constexpr std::string_view kNested = "KimiK25ForConditionalGeneration";

class Deepseek final : public Model {
 public:
  Deepseek(ModelSpec spec, const DeepseekConfig& config, NameMap names, RankOf rank);

  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return names_; }
  Status visit(Binder& binder) override;
  std::vector<KvScales> kv_scales() const override;
  Tensor forward(Step& step) override;

 private:
  struct Layer {
    Norm norm_in;
    LatentAttention attention;
    Norm norm_mid;
    std::variant<Mlp, Moe> mlp;
  };
  ModelSpec spec_;
  DeepseekConfig config_;
  NameMap names_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  Norm norm_out_;
  Head head_;
  RopeRule rope_;
};

std::variant<Mlp, Moe> mlp_of(const DeepseekConfig& config, int layer, RankOf rank) {
  if (layer < config.num_dense) return Mlp(config.hidden, config.intermediate, false, rank);
  return Moe(config.moe, rank);
}

Deepseek::Deepseek(ModelSpec spec, const DeepseekConfig& config, NameMap names, RankOf rank)
    : spec_(std::move(spec)),
      config_(config),
      names_(std::move(names)),
      embedding_(config.vocab, config.hidden),
      norm_out_(config.hidden, config.norm_eps),
      head_(config.vocab, config.hidden) {
  for (int i = 0; i < config.num_layers; ++i) {
    LatentAttentionConfig attention = config.attention;
    attention.layer = i;
    layers_.push_back({norm_out_, LatentAttention(attention, rank), norm_out_, mlp_of(config, i, rank)});
  }
}

Status Deepseek::visit(Binder& binder) {
  OCTAVO_TRY(embedding_.visit(binder, "model.embed_tokens"));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = "model.layers." + std::to_string(i);
    Layer& layer = layers_[i];
    OCTAVO_TRY(layer.norm_in.visit(binder, name + ".input_layernorm"));
    OCTAVO_TRY(layer.attention.visit(binder, name + ".self_attn"));
    OCTAVO_TRY(layer.norm_mid.visit(binder, name + ".post_attention_layernorm"));
    OCTAVO_TRY(std::visit([&](auto& mlp) { return mlp.visit(binder, name + ".mlp"); }, layer.mlp));
  }
  OCTAVO_TRY(norm_out_.visit(binder, "model.norm"));
  OCTAVO_TRY(head_.visit(binder, embedding_, config_.tied));
  const RopeTable table = make_rope(config_.rope, config_.attention.rope);
  rope_.factor = table.factor;
  rope_.interleaved = config_.interleaved;
  return binder.constant(rope_.inv_freq, table.inv_freq);
}

std::vector<KvScales> Deepseek::kv_scales() const {
  std::vector<KvScales> scales;
  for (const Layer& layer : layers_) scales.push_back(layer.attention.kv_scales());
  return scales;
}

Tensor Deepseek::forward(Step& step) {
  const std::int64_t tokens = step.batch.num_tokens;
  // The residual stream stays in float32, as in Decoder.
  const Tensor residual = step.arena.take(DType::f32, {tokens, config_.hidden});
  const Tensor x = step.take(tokens, config_.hidden);
  const Tensor delta = step.take(tokens, config_.hidden);
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

Status check_ranks(const DeepseekConfig& config, RankOf rank) {
  const int heads = config.attention.q_heads;
  if (heads % rank.size == 0 && config.intermediate % rank.size == 0 && config.moe.intermediate % rank.size == 0)
    return {};
  return Error("tensor parallel size " + std::to_string(rank.size) + " does not divide " + std::to_string(heads) +
               " heads, an MLP of " + std::to_string(config.intermediate) + " and experts of " +
               std::to_string(config.moe.intermediate));
}

ModelSpec spec_of(const DeepseekConfig& config, ModelSpec spec) {
  spec.hidden = config.hidden;
  spec.vocab = config.vocab;
  spec.max_positions = rope_max_positions(config.rope, config.max_positions);
  spec.rope = describe(config.rope);
  spec.tied = config.tied;
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

// Layers beyond the last are for predicting several tokens at once.
bool is_beyond(std::string_view name, int num_layers) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = name.substr(at + kLayers.size());
  int layer = 0;
  return std::from_chars(digits.data(), digits.data() + digits.size(), layer).ec == std::errc() && layer >= num_layers;
}

// With towers, published files begin every name of the text part with "language_model."; those that the library saved
// put it behind "model.", and not before the head.
std::string nested_name(const std::string& name) { return "language_model." + name; }
std::string saved_name(const std::string& name) {
  return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
}

NameMap names_of(const DeepseekConfig& config, const FamilyInput& input) {
  NameMap names;
  if (input.facts.architecture == kNested)
    names.file_name = input.has_tensor("model.language_model.norm.weight") ? saved_name : nested_name;
  names.ignorable = [num_layers = config.num_layers](const std::string& name) {
    const std::string_view inner = std::string_view(name).substr(name.starts_with("model.") ? 6 : 0);
    return inner.starts_with("vision_tower.") || inner.starts_with("mm_projector.") ||
           name.ends_with(".rotary_emb.inv_freq") || is_beyond(name, num_layers);
  };
  return names;
}

Result<std::unique_ptr<Model>> make_deepseek(const FamilyInput& input) {
  OCTAVO_TRY(const DeepseekConfig config, read_deepseek_config(input.config));
  OCTAVO_TRY(check_ranks(config, input.rank));
  return std::unique_ptr<Model>(
      std::make_unique<Deepseek>(spec_of(config, input.facts), config, names_of(config, input), input.rank));
}

}  // namespace

Family deepseek_family() { return {"deepseek_v3", {"DeepseekV3ForCausalLM", kNested}, "", make_deepseek}; }

}  // namespace octavo
