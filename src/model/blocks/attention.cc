#include "model/blocks/attention.h"

#include <cmath>
#include <vector>

#include "model/split.h"

namespace octavo {
namespace {

KvScales scales_from(StoredScales stored) {
  KvScales scales;
  if (stored.key.empty() && stored.value.empty() && stored.query.empty()) return scales;
  scales.source = ScaleSource::checkpoint;
  scales.key = std::move(stored.key);
  scales.value = std::move(stored.value);
  scales.query = std::move(stored.query);
  scales.per_head = stored.per_head;
  return scales;
}

}  // namespace

Attention::Attention(const AttentionConfig& config, RankOf rank)
    : config_(config),
      rank_(rank),
      q_heads_(config.q_heads / rank.size),
      kv_heads_(heads_of_rank(config.kv_heads, rank)) {
  if (config.qk_norm) {
    q_norm_.emplace(config.head_dim, config.norm_eps, config.norm_rounded_first, config.norm_offset);
    if (!shares()) k_norm_ = q_norm_;
  }
  check(!config.gated || (!config.bias && !shares()), "a gate comes without biases and with a cache");
  v_rule_.eps = config.norm_eps;
  v_rule_.rounded_first = config.norm_rounded_first;
}

Status Attention::visit(Binder& binder, const std::string& prefix) {
  const std::int64_t width = config_.head_dim;
  const std::int64_t q_unit = config_.gated ? 2 * width : width;
  std::vector<PartRequest> parts = {{prefix + ".q_proj", config_.q_heads * q_unit, Cut::rows, q_unit}};
  if (config_.gated) {
    OCTAVO_TRY(binder.weight(gated_q_, parts, config_.hidden));
    parts.clear();
  }
  if (!shares()) parts.push_back({prefix + ".k_proj", config_.kv_heads * width, Cut::rows, width});
  if (!shares() && !config_.value_is_key)
    parts.push_back({prefix + ".v_proj", config_.kv_heads * width, Cut::rows, width});
  OCTAVO_TRY(binder.weight(qkv_, parts, config_.hidden));
  const PartRequest output{prefix + ".o_proj", config_.hidden, Cut::columns, width};
  OCTAVO_TRY(binder.weight(output_, {&output, 1}, config_.q_heads * width));
  if (config_.bias) {
    std::vector<PartRequest> biases = parts;
    for (PartRequest& bias : biases) bias.name += ".bias";
    OCTAVO_TRY(binder.vectors(qkv_bias_, biases));
    OCTAVO_TRY(binder.vector(output_bias_, prefix + ".o_proj.bias", config_.hidden));
  }
  if (config_.sinks) {
    const PartRequest sinks{prefix + ".sinks", config_.q_heads, Cut::rows};
    OCTAVO_TRY(binder.vectors(sinks_, {&sinks, 1}));
  }
  if (q_norm_) OCTAVO_TRY(q_norm_->visit(binder, prefix + ".q_norm"));
  if (k_norm_) OCTAVO_TRY(k_norm_->visit(binder, prefix + ".k_norm"));
  if (shares()) return {};
  OCTAVO_TRY(StoredScales stored, binder.kv_scales(prefix, config_.q_heads, config_.kv_heads));
  if (stored.key.empty() != stored.value.empty())
    return Error(prefix + ": the checkpoint has the scale of " +
                 (stored.key.empty() ? "V, but that of K" : "K, but that of V") + " is missing");
  kv_scales_ = scales_from(std::move(stored));
  return {};
}

Tensor Attention::project(Step& step, const Tensor& x, const Weight& weight, const Tensor& bias) const {
  const Tensor y = step.take(x.size(0), weight.out);
  step.ops.linear({x, weight, bias, y});
  return y;
}

void Attention::forward(Step& step, const RopeRule& rope, const Tensor& x, const Tensor& out) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t tokens = x.size(0);
  const int width = config_.head_dim;
  const int owner = shares() ? config_.shared_with : config_.layer;
  const GroupStep& group = step.group_of(owner);
  const KvView kv = step.store.view(owner, group.page_table);

  const std::int64_t q_columns = std::int64_t{q_heads_} * width;
  const std::int64_t kv_columns = std::int64_t{kv_heads_} * width;
  const std::int64_t kv_begin = config_.gated ? 0 : q_columns;
  const Tensor qkv = project(step, x, qkv_, qkv_bias_);
  const Tensor q_and_gate = config_.gated ? project(step, x, gated_q_, Tensor()) : Tensor();
  const Tensor q = config_.gated ? q_and_gate.split_last(q_heads_, 2 * width).columns(0, width)
                                 : qkv.columns(0, q_columns).split_last(q_heads_, width);
  Tensor k, v;  // empty: only q is prepared
  if (!shares()) {
    k = qkv.columns(kv_begin, kv_columns).split_last(kv_heads_, width);
    v = config_.value_is_key ? k : qkv.columns(kv_begin + kv_columns, kv_columns).split_last(kv_heads_, width);
  }

  const QuerySpec form = step.ops.query_spec(kv.format);
  Query query;
  query.values = step.arena.take(form.dtype, {tokens, q_heads_, width * form.width_factor});
  if (form.has_scale) query.scale = step.arena.take(DType::f32, {tokens, q_heads_});
  step.ops.kv_write({.q = q,
                     .k = k,
                     .v = v,
                     .q_norm = q_norm_ ? &q_norm_->rule() : nullptr,
                     .k_norm = k_norm_ ? &k_norm_->rule() : nullptr,
                     .v_norm = config_.v_norm ? &v_rule_ : nullptr,
                     .rope = rope,
                     .positions = step.batch.positions,
                     .slots = group.slots,
                     .kv = kv,
                     .query = query});

  AttentionRule rule;
  rule.scale = config_.scale != 0 ? config_.scale : 1.0f / std::sqrt(static_cast<float>(width));
  rule.window = config_.window;
  rule.sinks = sinks_;
  const Tensor mixed = step.take(tokens, q_columns);
  step.ops.attention({query, kv, step.batch, *group.plan, rule, mixed.split_last(q_heads_, width)});
  if (config_.gated) {
    const Tensor gate = q_and_gate.reshaped({tokens * q_heads_, 2 * width}).columns(width, width);
    const Tensor heads = mixed.reshaped({tokens * q_heads_, width});
    step.ops.gated_activation({.gate = gate, .up = heads, .kind = Activation::sigmoid, .out = heads});
  }

  step.ops.linear({mixed, output_, rank_.rank == 0 ? output_bias_ : Tensor(), out});
  step.comm.all_reduce(out);
}

}  // namespace octavo
