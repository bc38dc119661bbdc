#include "model/blocks/moe.h"

namespace octavo {

Moe::Moe(const MoeConfig& config, RankOf rank) : config_(config), rank_(rank) {
  if (config.shared_intermediate > 0) shared_.emplace(config.hidden, config.shared_intermediate, false, rank);
}

ExpertsRequest Moe::inner_request(const std::string& prefix) const {
  const std::int64_t width = config_.intermediate;
  ExpertsRequest request{.prefix = prefix + ".experts",
                         .count = config_.experts,
                         .parts = {{"gate_proj", width, Cut::rows}, {"up_proj", width, Cut::rows}},
                         .in = config_.hidden,
                         .stacked = "gate_up_proj",
                         .transposed = config_.transposed};
  if (config_.interleaved) request.parts = {{"gate_up_proj", 2 * width, Cut::rows, 2}};
  return request;
}

ExpertsRequest Moe::down_request(const std::string& prefix) const {
  return {.prefix = prefix + ".experts",
          .count = config_.experts,
          .parts = {{"down_proj", config_.hidden, Cut::columns}},
          .in = config_.intermediate,
          .stacked = "down_proj",
          .transposed = config_.transposed};
}

Status Moe::visit(Binder& binder, const std::string& prefix) {
  const std::string router = prefix + "." + config_.router;
  const PartRequest part{router, config_.experts};
  OCTAVO_TRY(binder.weight(router_, {&part, 1}, config_.hidden));
  if (config_.choice_bias) {
    OCTAVO_TRY(binder.vector(choice_bias_, router + ".e_score_correction_bias", config_.experts));
  }
  OCTAVO_TRY(binder.experts(gate_up_, inner_request(prefix)));
  OCTAVO_TRY(binder.experts(down_, down_request(prefix)));
  if (config_.bias) {
    OCTAVO_TRY(binder.vector(router_bias_, router + ".bias", config_.experts));
    OCTAVO_TRY(binder.expert_biases(gate_up_bias_, inner_request(prefix)));
    OCTAVO_TRY(binder.expert_biases(down_bias_, down_request(prefix)));
  }
  if (shared_) {
    OCTAVO_TRY(shared_->visit(binder, prefix + ".shared_experts"));
  }
  return {};
}

void Moe::forward(Step& step, const Tensor& x, const Tensor& out) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t tokens = x.size(0);
  const std::int64_t choices = tokens * config_.per_token;
  // Whoever is chosen must not hang on a rounding to bf16: the router's scores stay in float32.
  const Tensor logits = step.arena.take(DType::f32, {tokens, config_.experts});
  step.ops.linear({x, router_, router_bias_, logits});
  const Tensor ids = step.arena.take(DType::i32, {tokens, config_.per_token});
  const Tensor weights = step.arena.take(DType::f32, {tokens, config_.per_token});
  step.ops.route({.logits = logits,
                  .kind = config_.route,
                  .choice_bias = choice_bias_,
                  .num_groups = config_.num_groups,
                  .top_groups = config_.top_groups,
                  .renormalise = config_.renormalise,
                  .scaling = config_.scaling,
                  .ids = ids,
                  .weights = weights});

  const std::int64_t width = down_.front().in;
  const Tensor gate_up = step.take(choices, 2 * width);
  step.ops.grouped_linear(
      {.x = x, .experts = gate_up_, .bias = gate_up_bias_, .ids = ids, .weights = {}, .out = gate_up});
  const Tensor inner = step.take(choices, width);
  step.ops.gated_activation({.gate = config_.interleaved ? gate_up.every(0, 2) : gate_up.columns(0, width),
                             .up = config_.interleaved ? gate_up.every(1, 2) : gate_up.columns(width, width),
                             .kind = config_.activation,
                             .limit = config_.limit,
                             .out = inner});
  step.ops.grouped_linear({.x = inner,
                           .experts = down_,
                           .bias = rank_.rank == 0 ? down_bias_ : Tensor(),
                           .ids = ids,
                           .weights = weights,
                           .out = out});
  if (shared_) {
    const Tensor shared = step.take(tokens, config_.hidden);
    shared_->partial(step, x, shared);
    step.ops.add({out, shared, out});
  }
  step.comm.all_reduce(out);
}

}  // namespace octavo
