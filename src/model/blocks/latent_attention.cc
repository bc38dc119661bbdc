#include "model/blocks/latent_attention.h"

#include <vector>

namespace octavo {
namespace {

// Whatever the config's rms_norm_eps: models.md section 12.
constexpr float kNormEps = 1e-6f;

// A scale per tensor covers the one head there is. Checkpoints that have one for both give it under K's name.
Result<KvScales> latent_scales(Binder& binder, const std::string& prefix, int q_heads) {
  OCTAVO_TRY(StoredScales stored, binder.kv_scales(prefix, q_heads, 1));
  KvScales scales;
  if (stored.key.empty() && stored.value.empty()) return scales;
  if (stored.key.empty()) return Error(prefix + ": the checkpoint has the scale of V, but that of K is missing");
  scales.source = ScaleSource::checkpoint;
  scales.value = stored.value.empty() ? stored.key : std::move(stored.value);
  scales.key = std::move(stored.key);
  return scales;
}

}  // namespace

LatentAttention::LatentAttention(const LatentAttentionConfig& config, RankOf rank)
    : config_(config),
      rank_(rank),
      q_heads_(config.q_heads / rank.size),
      q_norm_(config.q_rank, kNormEps),
      latent_norm_(config.latent, kNormEps) {}

Status LatentAttention::visit(Binder& binder, const std::string& prefix) {
  const std::int64_t key = config_.nope + config_.rope;
  const std::int64_t unit = config_.nope + config_.value;
  std::vector<PartRequest> down;
  if (config_.q_rank > 0) down.push_back({prefix + ".q_a_proj", config_.q_rank});
  down.push_back({prefix + ".kv_a_proj_with_mqa", config_.latent + config_.rope});
  OCTAVO_TRY(binder.weight(down_, down, config_.hidden));
  OCTAVO_TRY(latent_norm_.visit(binder, prefix + ".kv_a_layernorm"));
  if (config_.q_rank > 0) OCTAVO_TRY(q_norm_.visit(binder, prefix + ".q_a_layernorm"));
  const PartRequest q_up{prefix + (config_.q_rank > 0 ? ".q_b_proj" : ".q_proj"), config_.q_heads * key, Cut::rows,
                         key};
  OCTAVO_TRY(binder.weight(q_up_, {&q_up, 1}, config_.q_rank > 0 ? config_.q_rank : config_.hidden));
  if (config_.up_apart) {
    const PartRequest k_up{prefix + ".k_b_proj", std::int64_t{config_.q_heads} * config_.latent, Cut::rows,
                           config_.latent};
    OCTAVO_TRY(binder.weight(kv_up_, {&k_up, 1}, config_.nope));
    const PartRequest v_up{prefix + ".v_b_proj", std::int64_t{config_.q_heads} * config_.value, Cut::rows,
                           config_.value};
    OCTAVO_TRY(binder.weight(v_up_, {&v_up, 1}, config_.latent));
  } else {
    const PartRequest kv_up{prefix + ".kv_b_proj", config_.q_heads * unit, Cut::rows, unit};
    OCTAVO_TRY(binder.weight(kv_up_, {&kv_up, 1}, config_.latent));
  }
  const PartRequest output{prefix + ".o_proj", config_.hidden, Cut::columns, config_.value};
  OCTAVO_TRY(binder.weight(output_, {&output, 1}, std::int64_t{config_.q_heads} * config_.value));
  OCTAVO_TRY(kv_scales_, latent_scales(binder, prefix, config_.q_heads));
  return {};
}

LatentAttention::Projected LatentAttention::project(Step& step, const Tensor& x) const {
  const std::int64_t tokens = x.size(0);
  const Tensor low = step.take(tokens, down_.out);
  step.ops.linear({x, down_, Tensor(), low});
  const Tensor q = step.take(tokens, q_up_.out);
  const Tensor q_low = config_.q_rank > 0 ? low.columns(0, config_.q_rank) : x;
  if (config_.q_rank > 0) q_norm_.apply(step, q_low, q_low);
  step.ops.linear({q_low, q_up_, Tensor(), q});
  return {q, low.columns(config_.q_rank, config_.latent + config_.rope)};
}

HeadRows LatentAttention::key_rows() const {
  if (config_.up_apart)
    return {.weight = kv_up_, .unit = config_.latent, .first = 0, .count = config_.latent, .transposed = true};
  return {
      .weight = kv_up_, .unit = config_.nope + config_.value, .first = 0, .count = config_.nope, .transposed = false};
}

HeadRows LatentAttention::value_rows() const {
  if (config_.up_apart)
    return {.weight = v_up_, .unit = config_.value, .first = 0, .count = config_.value, .transposed = false};
  return {.weight = kv_up_,
          .unit = config_.nope + config_.value,
          .first = config_.nope,
          .count = config_.value,
          .transposed = false};
}

// [tokens, heads, latent + rope] in float32: W_UK^T q beside the turned rest of q.
Tensor LatentAttention::wide_queries(Step& step, const RopeRule& rope, const Tensor& q, const Tensor& positions) const {
  const std::int64_t tokens = q.size(0);
  const std::int64_t key = config_.nope + config_.rope;
  const std::int64_t wide_key = config_.latent + config_.rope;
  const Tensor wide = step.arena.take(DType::f32, {tokens, q_heads_, wide_key});
  if (tokens == 0) return wide;
  const HeadRows rows = key_rows();
  step.ops.head_linear({.x = q.split_last(q_heads_, key).columns(0, config_.nope),
                        .weight = rows.weight,
                        .unit = rows.unit,
                        .first = rows.first,
                        .count = rows.count,
                        .transposed = !rows.transposed,
                        .out = wide.columns(0, config_.latent)});
  const std::int64_t num_rows = tokens * q_heads_;
  step.ops.scale({.x = q.reshaped({num_rows, key}).columns(config_.nope, config_.rope),
                  .weight = {},
                  .factor = 1,
                  .soft_cap = 0,
                  .out = wide.reshaped({num_rows, wide_key}).columns(config_.latent, config_.rope)});
  step.ops.rope({wide.columns(config_.latent, config_.rope), positions, rope});
  return wide;
}

// The first rows, as many as `query` has: results are mixed latents, W_UV turns them into values.
void LatentAttention::attend_absorbed(Step& step, const Query& query, const KvView& kv, const Tensor& values) const {
  const Tensor mixed = step.arena.take(step.compute, {values.size(0), q_heads_, config_.latent});
  step.ops.attention({query, kv, step.batch, *step.group_of(config_.layer).plan, rule(), mixed});
  const HeadRows rows = value_rows();
  step.ops.head_linear({.x = mixed,
                        .weight = rows.weight,
                        .unit = rows.unit,
                        .first = rows.first,
                        .count = rows.count,
                        .transposed = rows.transposed,
                        .out = values.split_last(q_heads_, config_.value)});
}

// The rows from `first` on: keys and values of every head are made of the cache's records.
void LatentAttention::attend_expanded(Step& step, const RopeRule& rope, const Tensor& q, std::int64_t first,
                                      const KvView& kv, const Tensor& values) const {
  const std::int64_t count = q.size(0) - first;
  const Tensor heads = q.split_last(q_heads_, config_.nope + config_.rope);
  step.ops.rope(
      {heads.rows(first, count).columns(config_.nope, config_.rope), step.batch.positions.rows(first, count), rope});
  step.ops.expanded_attention({.q = heads,
                               .first_row = first,
                               .key = key_rows(),
                               .value = value_rows(),
                               .kv = kv,
                               .batch = step.batch,
                               .rule = rule(),
                               .out = values.split_last(q_heads_, config_.value)});
}

void LatentAttention::forward(Step& step, const RopeRule& rope, const Tensor& x, const Tensor& out) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t tokens = x.size(0);
  const GroupStep& group = step.group_of(config_.layer);
  const KvView kv = step.store.view(config_.layer, group.page_table);

  const Projected projected = project(step, x);
  const Tensor latent = projected.kv.columns(0, config_.latent);
  const Tensor rope_key = projected.kv.columns(config_.latent, config_.rope).split_last(1, config_.rope);
  latent_norm_.apply(step, latent, latent);
  step.ops.rope({rope_key, step.batch.positions, rope});

  const std::int64_t absorbed = step.ops.absorbed_rows(
      {.batch = step.batch, .format = kv.format, .key_width = config_.nope, .value_width = config_.value});
  const Tensor wide = wide_queries(step, rope, projected.q.rows(0, absorbed), step.batch.positions.rows(0, absorbed));
  const QuerySpec form = step.ops.query_spec(kv.format);
  Query query;
  query.values = step.arena.take(form.dtype, {absorbed, q_heads_, wide.size(2) * form.width_factor});
  if (form.has_scale) query.scale = step.arena.take(DType::f32, {absorbed, q_heads_});
  step.ops.kv_write({.q = wide,
                     .k = latent.split_last(1, config_.latent),
                     .v = rope_key,
                     .rope = {},
                     .positions = step.batch.positions,
                     .slots = group.slots,
                     .kv = kv,
                     .query = query});

  const Tensor values = step.take(tokens, std::int64_t{q_heads_} * config_.value);
  if (absorbed > 0) attend_absorbed(step, query, kv, values.rows(0, absorbed));
  if (absorbed < tokens) attend_expanded(step, rope, projected.q, absorbed, kv, values);
  step.ops.linear({values, output_, Tensor(), out});
  step.comm.all_reduce(out);
}

}  // namespace octavo
