// Gemma 4, text part: windows and full layers with heads of their own, last layers that share earlier K and V, an input
// of each layer made from the token, soft-capped logits. models.md section 7.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "model/blocks/attention.h"
#include "model/blocks/embedding.h"
#include "model/blocks/mlp.h"
#include "model/family.h"
#include "model/gemma4_config.h"
#include "model/gemma4_gguf.h"
#include "model/split.h"
#include "model/tensor_names.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

// The reference library rounds the factors of embeddings to the compute dtype: 39.25 for sqrt(1536) in bfloat16.
float rounded_to(DType compute, double x) {
  const auto value = static_cast<float>(x);
  return compute == DType::bf16 ? f32_from_bf16(bf16_from_f32(value)) : value;
}

AttentionConfig attention_of(const Gemma4Config& config, int number) {
  const Gemma4Layer& layer = config.layers[static_cast<std::size_t>(number)];
  return {.layer = number,
          .hidden = config.hidden,
          .q_heads = config.q_heads,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .window = layer.slides ? config.window : 0,
          .shared_with = layer.shared_with,
          .scale = 1.0f,
          .bias = config.bias,
          .qk_norm = true,
          .v_norm = true,
          .norm_rounded_first = false,
          .value_is_key = layer.value_is_key,
          .norm_eps = config.norm_eps};
}

class Gemma4 final : public Model {
 public:
  Gemma4(ModelSpec spec, const Gemma4Config& config, NameMap names, RankOf rank);

  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return names_; }
  Status visit(Binder& binder) override;
  std::vector<KvScales> kv_scales() const override;
  Tensor forward(Step& step) override;

 private:
  struct Layer {
    Norm norm_in;
    Attention attention;
    Norm norm_attention;
    Norm norm_mid;
    Mlp mlp;
    Norm norm_mlp;
    Weight input_gate;  // [P, hidden]
    Weight input_out;   // [hidden, P]
    Norm norm_input;
    Tensor scalar;  // f32 [1]
  };
  Status visit_layer(Binder& binder, Layer& layer, const std::string& prefix);
  Tensor layer_inputs(Step& step, const Tensor& x) const;
  void add_layer_input(Step& step, const Layer& layer, const Tensor& input, const Tensor& residual) const;

  ModelSpec spec_;
  Gemma4Config config_;
  NameMap names_;
  Embedding embedding_;
  Embedding input_embedding_;  // [Vp, L P]
  Weight input_projection_;    // [L P, hidden]
  Norm input_norm_;            // [P]
  std::vector<Layer> layers_;
  Norm norm_out_;
  Head head_;
  RopeRule sliding_rope_;
  RopeRule full_rope_;
};

Gemma4::Gemma4(ModelSpec spec, const Gemma4Config& config, NameMap names, RankOf rank)
    : spec_(std::move(spec)),
      config_(config),
      names_(std::move(names)),
      embedding_(config.vocab, config.hidden, rank),
      input_embedding_(config.per_layer_vocab, config.per_layer_width * static_cast<int>(config.layers.size()), rank),
      input_norm_(config.per_layer_width, config.norm_eps, false),
      norm_out_(config.hidden, config.norm_eps, false),
      head_(config.vocab, config.hidden, rank) {
  for (std::size_t i = 0; i < config.layers.size(); ++i)
    layers_.push_back({.norm_in = norm_out_,
                       .attention = Attention(attention_of(config, static_cast<int>(i)), rank),
                       .norm_attention = norm_out_,
                       .norm_mid = norm_out_,
                       .mlp = Mlp(config.hidden, config.layers[i].intermediate, false, rank, Activation::gelu_tanh),
                       .norm_mlp = norm_out_,
                       .input_gate = {},
                       .input_out = {},
                       .norm_input = norm_out_,
                       .scalar = {}});
}

Status Gemma4::visit_layer(Binder& binder, Layer& layer, const std::string& prefix) {
  OCTAVO_TRY(layer.norm_in.visit(binder, prefix + ".input_layernorm"));
  OCTAVO_TRY(layer.attention.visit(binder, prefix + ".self_attn"));
  OCTAVO_TRY(layer.norm_attention.visit(binder, prefix + ".post_attention_layernorm"));
  OCTAVO_TRY(layer.norm_mid.visit(binder, prefix + ".pre_feedforward_layernorm"));
  OCTAVO_TRY(layer.mlp.visit(binder, prefix + ".mlp"));
  OCTAVO_TRY(layer.norm_mlp.visit(binder, prefix + ".post_feedforward_layernorm"));
  if (config_.per_layer_width > 0) {
    const PartRequest gate{prefix + ".per_layer_input_gate", config_.per_layer_width};
    OCTAVO_TRY(binder.weight(layer.input_gate, {&gate, 1}, config_.hidden));
    const PartRequest out{prefix + ".per_layer_projection", config_.hidden};
    OCTAVO_TRY(binder.weight(layer.input_out, {&out, 1}, config_.per_layer_width));
    OCTAVO_TRY(layer.norm_input.visit(binder, prefix + ".post_per_layer_input_norm"));
  }
  return binder.vector(layer.scalar, prefix + ".layer_scalar", 1);
}

Status Gemma4::visit(Binder& binder) {
  OCTAVO_TRY(embedding_.visit(binder, "model.embed_tokens"));
  if (config_.per_layer_width > 0) {
    OCTAVO_TRY(input_embedding_.visit(binder, "model.embed_tokens_per_layer"));
    const PartRequest projection{"model.per_layer_model_projection",
                                 config_.per_layer_width * static_cast<int>(layers_.size())};
    OCTAVO_TRY(binder.weight(input_projection_, {&projection, 1}, config_.hidden));
    OCTAVO_TRY(input_norm_.visit(binder, "model.per_layer_projection_norm"));
  }
  for (std::size_t i = 0; i < layers_.size(); ++i)
    OCTAVO_TRY(visit_layer(binder, layers_[i], "model.layers." + std::to_string(i)));
  OCTAVO_TRY(norm_out_.visit(binder, "model.norm"));
  OCTAVO_TRY(head_.visit(binder, embedding_, config_.tied));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool slides = config_.layers[i].slides;
    RopeRule& rope = slides ? sliding_rope_ : full_rope_;
    if (!rope.inv_freq.empty()) continue;
    const RopeTable table = make_rope(slides ? config_.sliding_rope : config_.full_rope, config_.layers[i].head_dim);
    rope.factor = table.factor;
    OCTAVO_TRY(binder.constant(rope.inv_freq, table.inv_freq));
  }
  return {};
}

std::vector<KvScales> Gemma4::kv_scales() const {
  std::vector<KvScales> scales;
  for (const Layer& layer : layers_) scales.push_back(layer.attention.kv_scales());
  return scales;
}

// (norm(projection(x) hidden^-1/2) + embedding(token) P^1/2) 2^-1/2, [tokens, L P]; x: the scaled embedding.
Tensor Gemma4::layer_inputs(Step& step, const Tensor& x) const {
  if (config_.per_layer_width == 0) return {};
  const std::int64_t tokens = x.size(0);
  const auto num_layers = static_cast<std::int64_t>(layers_.size());
  const Tensor inputs = step.take(tokens, num_layers * config_.per_layer_width);
  const Arena::Scope scope(step.arena);
  const Tensor of_token = step.take(tokens, inputs.size(1));
  input_embedding_.lookup(step, of_token, rounded_to(step.compute, std::sqrt(config_.per_layer_width)));
  step.ops.linear({x, input_projection_, Tensor(), inputs});
  step.ops.scale({.x = inputs,
                  .weight = {},
                  .factor = static_cast<float>(1 / std::sqrt(config_.hidden)),
                  .soft_cap = 0,
                  .out = inputs});
  const Tensor rows = inputs.reshaped({tokens * num_layers, config_.per_layer_width});
  input_norm_.apply(step, rows, rows);
  step.ops.add({inputs, of_token, inputs});
  step.ops.scale({.x = inputs, .weight = {}, .factor = std::sqrt(0.5f), .soft_cap = 0, .out = inputs});
  return inputs;
}

// residual += norm(out(gelu(gate residual) * input)).
void Gemma4::add_layer_input(Step& step, const Layer& layer, const Tensor& input, const Tensor& residual) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t tokens = residual.size(0);
  const Tensor x = step.take(tokens, config_.hidden);
  const Tensor gate = step.take(tokens, config_.per_layer_width);
  step.ops.scale({.x = residual, .weight = {}, .factor = 1, .soft_cap = 0, .out = x});
  step.ops.linear({x, layer.input_gate, Tensor(), gate});
  step.ops.gated_activation({.gate = gate, .up = input, .kind = Activation::gelu_tanh, .out = gate});
  step.ops.linear({gate, layer.input_out, Tensor(), x});
  layer.norm_input.apply(step, x, x);
  step.ops.add({residual, x, residual});
}

Tensor Gemma4::forward(Step& step) {
  const std::int64_t tokens = step.batch.num_tokens;
  // The residual stream stays in float32, as in DecoderStack.
  const Tensor residual = step.arena.take(DType::f32, {tokens, config_.hidden});
  const Tensor x = step.take(tokens, config_.hidden);
  const Tensor delta = step.take(tokens, config_.hidden);
  const float embedding_scale = rounded_to(step.compute, std::sqrt(config_.hidden));
  embedding_.lookup(step, residual, embedding_scale);
  embedding_.lookup(step, x, embedding_scale);
  const Tensor inputs = layer_inputs(step, x);

  layers_.front().norm_in.apply(step, residual, x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    layer.attention.forward(step, config_.layers[i].slides ? sliding_rope_ : full_rope_, x, delta);
    layer.norm_attention.apply(step, delta, delta);
    layer.norm_mid.add_apply(step, delta, residual, x);
    layer.mlp.forward(step, x, delta);
    layer.norm_mlp.apply(step, delta, delta);
    step.ops.add({residual, delta, residual});
    const std::int64_t width = config_.per_layer_width;
    if (width > 0) add_layer_input(step, layer, inputs.columns(static_cast<std::int64_t>(i) * width, width), residual);
    step.ops.scale({.x = residual, .weight = layer.scalar, .factor = 1, .soft_cap = 0, .out = residual});
    const Norm& next = i + 1 < layers_.size() ? layers_[i + 1].norm_in : norm_out_;
    next.apply(step, residual, x);
  }
  const Tensor logits = head_.logits(step, x);
  if (config_.logit_cap > 0)
    step.ops.scale({.x = logits, .weight = {}, .factor = 1, .soft_cap = config_.logit_cap, .out = logits});
  return logits;
}

Status check_ranks(const Gemma4Config& config, RankOf rank) {
  OCTAVO_TRY(check_even(rank, config.q_heads, "query heads"));
  for (const Gemma4Layer& layer : config.layers) {
    OCTAVO_TRY(check_heads(rank, layer.kv_heads, "KV heads"));
    OCTAVO_TRY(check_even(rank, layer.intermediate, "intermediate numbers of an MLP"));
  }
  return {};
}

ModelSpec spec_of(const Gemma4Config& config, ModelSpec spec) {
  spec.hidden = config.hidden;
  spec.vocab = config.vocab;
  spec.max_positions = rope_max_positions(config.full_rope, config.max_positions);
  spec.rope = describe(config.full_rope);
  if (config.window > 0) spec.rope += "; layers with a window: " + describe(config.sliding_rope);
  spec.tied = config.tied;
  for (const Gemma4Layer& layer : config.layers) {
    LayerSpec& facts = spec.layers.emplace_back();
    facts.kind = layer.slides ? "sliding_window" : "full_attention";
    facts.cache = layer.shared_with >= 0 ? CacheKind::shared : CacheKind::grouped;
    facts.shared_with = layer.shared_with;
    facts.window = layer.slides ? config.window : 0;
    facts.q_heads = config.q_heads;
    facts.kv_heads = layer.kv_heads;
    facts.head_dim = facts.value_dim = layer.head_dim;
  }
  return spec;
}

// Whether a file's tensor belongs to what makes K and V of a layer that shares another's: published files hold it.
bool makes_unused_kv(std::string_view name, int first_sharing) {
  constexpr std::string_view kAttention = ".self_attn.";
  const std::size_t inner = name.find(kAttention);
  if (inner == std::string_view::npos) return false;
  const std::string_view rest = name.substr(inner + kAttention.size());
  return layer_of_name(name).value_or(-1) >= first_sharing &&
         (rest.starts_with("k_") || rest.starts_with("v_") || rest.starts_with("kv_"));
}

// In a GGUF file also the divisors of frequencies, which were read with the config.
NameMap gguf_names_of(const Gemma4Config& config) {
  NameMap names;
  names.file_name = gemma4_gguf_name;
  std::set<std::string> unused = {"rope_freqs.weight"};
  for (std::size_t i = static_cast<std::size_t>(config.first_sharing()); i < config.layers.size(); ++i)
    for (const char* part : {"attn_k", "attn_v", "attn_k_norm"})
      unused.insert("blk." + std::to_string(i) + "." + part + ".weight");
  names.ignorable = [unused = std::move(unused)](const std::string& name) { return unused.contains(name); };
  return names;
}

NameMap names_of(const Gemma4Config& config, bool nested) {
  NameMap names;
  if (nested) names.file_name = name_beside_towers;
  names.ignorable = [first = config.first_sharing()](const std::string& name) {
    for (const char* tower : {"model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio."})
      if (name.starts_with(tower)) return true;
    return makes_unused_kv(name, first);
  };
  return names;
}

Result<std::unique_ptr<Model>> make_gemma4(const FamilyInput& input) {
  OCTAVO_TRY(const Gemma4Config config, read_gemma4_config(input.config));
  OCTAVO_TRY(check_ranks(config, input.rank));
  const bool nested = input.facts.architecture == "Gemma4ForConditionalGeneration";
  return std::unique_ptr<Model>(
      std::make_unique<Gemma4>(spec_of(config, input.facts), config,
                               input.from_gguf ? gguf_names_of(config) : names_of(config, nested), input.rank));
}

}  // namespace

Family gemma4_family() {
  return {"gemma4", "Gemma 4",   {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"},
          "gemma4", make_gemma4, gemma4_gguf_form()};
}

}  // namespace octavo
