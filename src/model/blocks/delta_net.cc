#include "model/blocks/delta_net.h"

#include <array>

#include "model/split.h"

namespace octavo {
namespace {

enum RecordPart { kConvolution, kStates };

}  // namespace

DeltaNetConfig DeltaNetConfig::share_of(RankOf rank) const {
  DeltaNetConfig share = *this;
  share.key_heads = heads_of_rank(key_heads, rank);
  share.value_heads = value_heads / rank.size;
  return share;
}

DeltaNet::DeltaNet(const DeltaNetConfig& config, RankOf rank)
    : whole_(config), config_(config.share_of(rank)), norm_(config.value_dim, config.norm_eps, false) {}

// q, k and v lie in one tensor, and each is cut by its own heads.
std::vector<PartRequest> DeltaNet::channel_parts(const std::string& name) const {
  const std::int64_t channels = whole_.channels();
  if (config_.channels() == channels) return {{name, channels}};
  const std::int64_t keys = whole_.keys();
  return {{name, keys, Cut::rows, whole_.key_dim, 0, channels},
          {name, keys, Cut::rows, whole_.key_dim, keys, channels},
          {name, whole_.values(), Cut::rows, whole_.value_dim, 2 * keys, channels}};
}

Status DeltaNet::visit(Binder& binder, const std::string& prefix) {
  std::vector<PartRequest> inputs = channel_parts(prefix + ".in_proj_qkv");
  inputs.push_back({prefix + ".in_proj_z", whole_.values(), Cut::rows, whole_.value_dim});
  OCTAVO_TRY(binder.weight(qkv_z_, inputs, whole_.hidden));
  const std::array<PartRequest, 2> gates = {
      {{prefix + ".in_proj_b", whole_.value_heads, Cut::rows}, {prefix + ".in_proj_a", whole_.value_heads, Cut::rows}}};
  OCTAVO_TRY(binder.weight(b_a_, gates, whole_.hidden));
  OCTAVO_TRY(binder.depthwise(convolution_, channel_parts(prefix + ".conv1d.weight"), whole_.taps));
  const PartRequest dt_bias{prefix + ".dt_bias", whole_.value_heads, Cut::rows};
  OCTAVO_TRY(binder.vectors(dt_bias_, {&dt_bias, 1}));
  const PartRequest a_log{prefix + ".A_log", whole_.value_heads, Cut::rows};
  OCTAVO_TRY(binder.vectors(a_log_, {&a_log, 1}));
  OCTAVO_TRY(norm_.visit(binder, prefix + ".norm"));
  const PartRequest output{prefix + ".out_proj", whole_.hidden, Cut::columns, whole_.value_dim};
  return binder.weight(output_, {&output, 1}, whole_.values());
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
  step.comm.all_reduce(out);
}

}  // namespace octavo
