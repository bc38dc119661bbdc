#include "model/blocks/delta_net.h"

#include <array>

namespace octavo {
namespace {

enum RecordPart { kConvolution, kStates };

}  // namespace

DeltaNet::DeltaNet(const DeltaNetConfig& config) : config_(config), norm_(config.value_dim, config.norm_eps, false) {}

Status DeltaNet::visit(Binder& binder, const std::string& prefix) {
  const std::array<PartRequest, 2> inputs = {
      {{prefix + ".in_proj_qkv", config_.channels()}, {prefix + ".in_proj_z", config_.values()}}};
  OCTAVO_TRY(binder.weight(qkv_z_, inputs, config_.hidden));
  const std::array<PartRequest, 2> gates = {
      {{prefix + ".in_proj_b", config_.value_heads}, {prefix + ".in_proj_a", config_.value_heads}}};
  OCTAVO_TRY(binder.weight(b_a_, gates, config_.hidden));
  OCTAVO_TRY(binder.depthwise(convolution_, prefix + ".conv1d.weight", config_.channels(), config_.taps));
  OCTAVO_TRY(binder.vector(dt_bias_, prefix + ".dt_bias", config_.value_heads));
  OCTAVO_TRY(binder.vector(a_log_, prefix + ".A_log", config_.value_heads));
  OCTAVO_TRY(norm_.visit(binder, prefix + ".norm"));
  const PartRequest output{prefix + ".out_proj", config_.hidden};
  return binder.weight(output_, {&output, 1}, config_.values());
}

Tensor DeltaNet::convolve(Step& step, const Tensor& x) const {
  const Tensor out = step.take(x.size(0), config_.channels());
  step.ops.conv_update(
      {.x = x,
       .weight = convolution_,
       .state = step.store.state(config_.layer, kConvolution).split_last(config_.channels(), config_.taps - 1),
       .records = step.group_of(config_.layer).records,
       .batch = step.batch,
       .out = out});
  return out;
}

// gates: f32 [tokens, 2 value_heads], b and a; overwritten.
void DeltaNet::mix(Step& step, const Tensor& qkv, const Tensor& gates, const Tensor& out) const {
  const std::int64_t keys = std::int64_t{config_.key_heads} * config_.key_dim;
  const Tensor beta = gates.columns(0, config_.value_heads);
  const Tensor decay = gates.columns(config_.value_heads, config_.value_heads);
  step.ops.delta_gates({.a = decay, .b = beta, .a_log = a_log_, .dt_bias = dt_bias_, .decay = decay, .beta = beta});
  step.ops.delta_rule({.q = qkv.columns(0, keys).split_last(config_.key_heads, config_.key_dim),
                       .k = qkv.columns(keys, keys).split_last(config_.key_heads, config_.key_dim),
                       .v = qkv.columns(2 * keys, config_.values()).split_last(config_.value_heads, config_.value_dim),
                       .decay = decay,
                       .beta = beta,
                       .state = step.store.state(config_.layer, kStates)
                                    .split_last(config_.value_heads, std::int64_t{config_.key_dim} * config_.value_dim)
                                    .split_last(config_.key_dim, config_.value_dim),
                       .records = step.group_of(config_.layer).records,
                       .batch = step.batch,
                       .out = out.split_last(config_.value_heads, config_.value_dim)});
}

void DeltaNet::forward(Step& step, const Tensor& x, const Tensor& out) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t tokens = x.size(0);
  const Tensor qkv_z = step.take(tokens, qkv_z_.out);
  step.ops.linear({x, qkv_z_, Tensor(), qkv_z});
  const Tensor gates = step.arena.take(DType::f32, {tokens, b_a_.out});
  step.ops.linear({x, b_a_, Tensor(), gates});

  const Tensor mixed = step.take(tokens, config_.values());
  mix(step, convolve(step, qkv_z.columns(0, config_.channels())), gates, mixed);
  // Of each head by itself: the norm first, then the gate.
  const Tensor heads = mixed.reshaped({tokens * config_.value_heads, config_.value_dim});
  norm_.apply(step, heads, heads);
  const Tensor z = qkv_z.columns(config_.channels(), config_.values());
  step.ops.gated_activation({.gate = z, .up = mixed, .kind = Activation::silu, .out = mixed});
  step.ops.linear({mixed, output_, Tensor(), out});
}

}  // namespace octavo
