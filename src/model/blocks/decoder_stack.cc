#include "model/blocks/decoder_stack.h"

#include <utility>

namespace octavo {
namespace {

const char* mixer_name(const DeltaNet&) { return ".linear_attn"; }
const char* mixer_name(const auto&) { return ".self_attn"; }

void mix(const DeltaNet& net, Step& step, const RopeRule&, const Tensor& x, const Tensor& out) {
  net.forward(step, x, out);
}
void mix(const auto& attention, Step& step, const RopeRule& rope, const Tensor& x, const Tensor& out) {
  attention.forward(step, rope, x, out);
}

KvScales mixer_scales(const DeltaNet&) { return {}; }
KvScales mixer_scales(const auto& attention) { return attention.kv_scales(); }

}  // namespace

DecoderStack::DecoderStack(DecoderFrame frame, std::vector<Layer> layers)
    : frame_(std::move(frame)),
      embedding_(frame_.vocab, frame_.hidden, frame_.rank),
      norm_out_(frame_.norm),
      head_(frame_.vocab, frame_.hidden, frame_.rank) {
  for (Layer& layer : layers) layers_.push_back({frame_.norm, frame_.norm, std::move(layer)});
}

Status DecoderStack::visit(Binder& binder, const std::string& prefix) {
  OCTAVO_TRY(embedding_.visit(binder, prefix + ".embed_tokens"));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = prefix + ".layers." + std::to_string(i);
    auto& [norm_in, norm_mid, layer] = layers_[i];
    OCTAVO_TRY(norm_in.visit(binder, name + ".input_layernorm"));
    OCTAVO_TRY(std::visit([&](auto& mixer) { return mixer.visit(binder, name + mixer_name(mixer)); }, layer.mixer));
    OCTAVO_TRY(norm_mid.visit(binder, name + ".post_attention_layernorm"));
    OCTAVO_TRY(std::visit([&](auto& mlp) { return mlp.visit(binder, name + ".mlp"); }, layer.mlp));
  }
  OCTAVO_TRY(norm_out_.visit(binder, prefix + ".norm"));
  OCTAVO_TRY(head_.visit(binder, embedding_, frame_.tied));
  const RopeTable table = make_rope(frame_.rope, frame_.rope_width);
  rope_.factor = table.factor;
  rope_.interleaved = frame_.rope_interleaved;
  return binder.constant(rope_.inv_freq, table.inv_freq);
}

Tensor DecoderStack::forward(Step& step) {
  const std::int64_t tokens = step.batch.num_tokens;
  // The residual stream stays in float32: rounded after every block, its errors would add up over the layers.
  const Tensor residual = step.arena.take(DType::f32, {tokens, frame_.hidden});
  const Tensor x = step.take(tokens, frame_.hidden);
  const Tensor delta = step.take(tokens, frame_.hidden);

  embedding_.lookup(step, residual);
  layers_.front().norm_in.apply(step, residual, x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto& [norm_in, norm_mid, layer] = layers_[i];
    std::visit([&](const auto& mixer) { mix(mixer, step, rope_, x, delta); }, layer.mixer);
    norm_mid.add_apply(step, delta, residual, x);
    std::visit([&](const auto& mlp) { mlp.forward(step, x, delta); }, layer.mlp);
    const Norm& next = i + 1 < layers_.size() ? layers_[i + 1].norm_in : norm_out_;
    next.add_apply(step, delta, residual, x);
  }
  return head_.logits(step, x);
}

std::vector<KvScales> DecoderStack::kv_scales() const {
  std::vector<KvScales> scales;
  for (const NormedLayer& normed : layers_)
    scales.push_back(std::visit([](const auto& mixer) { return mixer_scales(mixer); }, normed.layer.mixer));
  return scales;
}

ModelSpec frame_spec(const DecoderFrame& frame, int max_positions, ModelSpec spec) {
  spec.hidden = frame.hidden;
  spec.vocab = frame.vocab;
  spec.max_positions = rope_max_positions(frame.rope, max_positions);
  spec.rope = describe(frame.rope);
  spec.tied = frame.tied;
  return spec;
}

}  // namespace octavo
