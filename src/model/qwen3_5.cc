// Qwen3.5, the text part: most layers are gated delta nets, the others attend with a gate on their output and rotate a
// quarter of each head. Norms weigh by 1 + w. models.md section 5.

#include <variant>

#include "model/blocks/attention.h"
#include "model/blocks/embedding.h"
#include "model/blocks/mlp.h"
#include "model/family.h"
#include "model/qwen3_5_config.h"

namespace octavo {
namespace {

constexpr std::string_view kWithTowers = "Qwen3_5ForConditionalGeneration";

class Qwen35 final : public Model {
 public:
  Qwen35(ModelSpec spec, const Qwen35Config& config, NameMap names);

  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return names_; }
  Status visit(Binder& binder) override;
  std::vector<KvScales> kv_scales() const override;
  Tensor forward(Step& step) override;

 private:
  struct Layer {
    Norm norm_in;
    std::variant<Attention, DeltaNet> mixer;
    Norm norm_mid;
    Mlp mlp;
  };
  void mix(Step& step, const Layer& layer, const Tensor& x, const Tensor& out) const;

  ModelSpec spec_;
  Qwen35Config config_;
  NameMap names_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  Norm norm_out_;
  Head head_;
  RopeRule rope_;
};

Attention attention_of(const DenseConfig& dense, int layer) {
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
                   {});
}

DeltaNet delta_net_of(DeltaNetConfig config, int layer) {
  config.layer = layer;
  return DeltaNet(config);
}

Qwen35::Qwen35(ModelSpec spec, const Qwen35Config& config, NameMap names)
    : spec_(std::move(spec)),
      config_(config),
      names_(std::move(names)),
      embedding_(config.dense.vocab, config.dense.hidden),
      norm_out_(config.dense.hidden, config.dense.norm_eps, false, 1),
      head_(config.dense.vocab, config.dense.hidden) {
  const DenseConfig& dense = config.dense;
  for (int i = 0; i < dense.num_layers; ++i) {
    const Mlp mlp(dense.hidden, dense.intermediate, false, {});
    if (config.recurrent[static_cast<std::size_t>(i)])
      layers_.push_back({norm_out_, delta_net_of(config.delta, i), norm_out_, mlp});
    else
      layers_.push_back({norm_out_, attention_of(dense, i), norm_out_, mlp});
  }
}

Status Qwen35::visit(Binder& binder) {
  OCTAVO_TRY(embedding_.visit(binder, "model.embed_tokens"));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = "model.layers." + std::to_string(i);
    Layer& layer = layers_[i];
    OCTAVO_TRY(layer.norm_in.visit(binder, name + ".input_layernorm"));
    if (auto* attention = std::get_if<Attention>(&layer.mixer)) {
      OCTAVO_TRY(attention->visit(binder, name + ".self_attn"));
    } else {
      OCTAVO_TRY(std::get<DeltaNet>(layer.mixer).visit(binder, name + ".linear_attn"));
    }
    OCTAVO_TRY(layer.norm_mid.visit(binder, name + ".post_attention_layernorm"));
    OCTAVO_TRY(layer.mlp.visit(binder, name + ".mlp"));
  }
  OCTAVO_TRY(norm_out_.visit(binder, "model.norm"));
  OCTAVO_TRY(head_.visit(binder, embedding_, config_.dense.tied));
  const RopeTable table = make_rope(config_.rope, config_.dense.head_dim);
  rope_.factor = table.factor;
  return binder.constant(rope_.inv_freq, table.inv_freq);
}

std::vector<KvScales> Qwen35::kv_scales() const {
  std::vector<KvScales> scales;
  for (const Layer& layer : layers_) {
    const auto* attention = std::get_if<Attention>(&layer.mixer);
    scales.push_back(attention != nullptr ? attention->kv_scales() : KvScales());
  }
  return scales;
}

void Qwen35::mix(Step& step, const Layer& layer, const Tensor& x, const Tensor& out) const {
  if (const auto* attention = std::get_if<Attention>(&layer.mixer))
    attention->forward(step, rope_, x, out);
  else
    std::get<DeltaNet>(layer.mixer).forward(step, x, out);
}

Tensor Qwen35::forward(Step& step) {
  const std::int64_t tokens = step.batch.num_tokens;
  // The residual stream stays in float32, as in Decoder.
  const Tensor residual = step.arena.take(DType::f32, {tokens, config_.dense.hidden});
  const Tensor x = step.take(tokens, config_.dense.hidden);
  const Tensor delta = step.take(tokens, config_.dense.hidden);

  embedding_.lookup(step, residual);
  layers_.front().norm_in.apply(step, residual, x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    mix(step, layer, x, delta);
    layer.norm_mid.add_apply(step, delta, residual, x);
    layer.mlp.forward(step, x, delta);
    const Norm& next = i + 1 < layers_.size() ? layers_[i + 1].norm_in : norm_out_;
    next.add_apply(step, delta, residual, x);
  }
  return head_.logits(step, x);
}

ModelSpec qwen3_5_spec(const Qwen35Config& config, ModelSpec spec) {
  const DenseConfig& dense = config.dense;
  spec.hidden = dense.hidden;
  spec.vocab = dense.vocab;
  spec.max_positions = rope_max_positions(config.rope, dense.max_positions);
  spec.rope = describe(config.rope);
  spec.tied = dense.tied;
  for (const bool recurrent : config.recurrent) {
    LayerSpec& layer = spec.layers.emplace_back();
    if (recurrent) {
      layer.kind = "linear_attention";
      layer.cache = CacheKind::state;
      layer.state_parts = config.delta.state_parts();
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
  if (with_towers)
    names.file_name = [](const std::string& name) {
      return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
    };
  names.ignorable = [](const std::string& name) {
    return name.starts_with("model.visual.") || name.starts_with("mtp.");
  };
  return names;
}

Result<std::unique_ptr<Model>> make_qwen3_5(const FamilyInput& input) {
  OCTAVO_TRY(const Qwen35Config config, read_qwen3_5_config(input.config));
  if (input.rank.size > 1)
    return Error("tensor parallel size " + std::to_string(input.rank.size) + " is not supported for this family yet",
                 ErrorKind::unsupported);
  const bool with_towers = input.facts.architecture == kWithTowers;
  return std::unique_ptr<Model>(
      std::make_unique<Qwen35>(qwen3_5_spec(config, input.facts), config, qwen3_5_names(with_towers)));
}

}  // namespace

Family qwen3_5_family() { return {"qwen3_5", {kWithTowers, "Qwen3_5ForCausalLM"}, "", make_qwen3_5}; }

}  // namespace octavo
