#include "model/deepseek_config.h"

#include <cmath>
#include <string>

#include "base/strings.h"
#include "model/expert_counts.h"

namespace octavo {
namespace {

constexpr int kMaxDeepseekWidth = 1 << 20;
constexpr int kMaxLatentHeadDim = 1024;

// The key is absent or holds this name.
Status expect_name(const Json& config, const std::string& key, const std::string& expected) {
  OCTAVO_TRY(const auto value, find_string(config, key));
  if (!value || *value == expected) return {};
  return Error("\"" + key + "\" " + in_quotes(*value) + " is not supported; supported: " + expected,
               ErrorKind::unsupported);
}

Status check_deepseek_supported(const Json& config) {
  OCTAVO_TRY(expect_name(config, "hidden_act", "silu"));
  OCTAVO_TRY(expect_name(config, "scoring_func", "sigmoid"));
  OCTAVO_TRY(expect_name(config, "topk_method", "noaux_tc"));
  OCTAVO_TRY(const bool bias, read_flag(config, "attention_bias", false));
  if (bias) return Error("\"attention_bias\" true is not supported for this family", ErrorKind::unsupported);
  OCTAVO_TRY(const int every, read_count(config, "moe_layer_freq", 1, 1024, 1));
  if (every != 1)
    return Error("\"moe_layer_freq\" " + std::to_string(every) + " is not supported; supported: 1",
                 ErrorKind::unsupported);
  return {};
}

// Scores are scaled by the width of a key, and where yarn stretches positions by its own factor too.
float score_scale(const RopeConfig& rope, int key_width) {
  double m = 1;
  if (rope.kind != "default" && rope.mscale_all_dim != 0 && rope.factor > 1)
    m = 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1;
  return static_cast<float>(m * m / std::sqrt(key_width));
}

Status read_attention(const Json& config, DeepseekConfig& result) {
  LatentAttentionConfig& attention = result.attention;
  attention.hidden = result.hidden;
  OCTAVO_TRY(attention.q_heads, read_count(config, "num_attention_heads", 1, 1024));
  OCTAVO_TRY(attention.q_rank, read_count(config, "q_lora_rank", 1, kMaxDeepseekWidth, 0));
  OCTAVO_TRY(attention.latent, read_count(config, "kv_lora_rank", 1, 1 << 16));
  OCTAVO_TRY(attention.nope, read_count(config, "qk_nope_head_dim", 1, kMaxLatentHeadDim));
  OCTAVO_TRY(attention.rope, read_count(config, "qk_rope_head_dim", 2, kMaxLatentHeadDim));
  OCTAVO_TRY(attention.value, read_count(config, "v_head_dim", 1, kMaxLatentHeadDim));
  if (attention.rope % 2 != 0)
    return Error("\"qk_rope_head_dim\" must be even, but is " + std::to_string(attention.rope));
  OCTAVO_TRY(result.rope, read_rope(config, result.max_positions, 10000.0));
  result.rope.partial = 1;  // the rope key is a head of its own, turned whole
  OCTAVO_TRY(result.interleaved, read_flag(config, "rope_interleave", true));
  attention.scale = score_scale(result.rope, attention.nope + attention.rope);
  return {};
}

Status read_moe(const Json& config, DeepseekConfig& result) {
  OCTAVO_TRY(result.num_dense, read_count(config, "first_k_dense_replace", 0, 1024));
  OCTAVO_TRY(const ExpertCounts counts, read_expert_counts(config, {"n_routed_experts"}, {"num_experts_per_tok"}));
  MoeConfig& moe = result.moe;
  moe.hidden = result.hidden;
  moe.experts = counts.experts;
  moe.per_token = counts.per_token;
  moe.route = RouteKind::sigmoid_groups;
  moe.choice_bias = true;
  OCTAVO_TRY(moe.intermediate, read_count(config, "moe_intermediate_size", 1, kMaxDeepseekWidth));
  OCTAVO_TRY(const int shared, read_count(config, "n_shared_experts", 0, 1024, 0));
  moe.shared_intermediate = shared * moe.intermediate;
  OCTAVO_TRY(moe.num_groups, read_count(config, "n_group", 1, moe.experts, 1));
  OCTAVO_TRY(moe.top_groups, read_count(config, "topk_group", 1, moe.num_groups, 1));
  OCTAVO_TRY(moe.renormalise, read_flag(config, "norm_topk_prob", true));
  OCTAVO_TRY(const double scaling, read_number(config, "routed_scaling_factor", 0, 1e6, 1.0));
  moe.scaling = static_cast<float>(scaling);
  if (moe.experts % moe.num_groups != 0)
    return Error("\"n_routed_experts\" " + std::to_string(moe.experts) + " is not a multiple of \"n_group\" " +
                 std::to_string(moe.num_groups));
  const int reachable = moe.experts / moe.num_groups * moe.top_groups;
  if (moe.per_token > reachable)
    return Error("\"num_experts_per_tok\" " + std::to_string(moe.per_token) + " is more than the " +
                 std::to_string(reachable) + " experts of \"topk_group\" " + std::to_string(moe.top_groups) +
                 " groups");
  return {};
}

}  // namespace

Result<DeepseekConfig> read_deepseek_config(const Json& config) {
  DeepseekConfig result;
  OCTAVO_TRY(check_deepseek_supported(config));
  OCTAVO_TRY(result.hidden, read_count(config, "hidden_size", 1, kMaxDeepseekWidth));
  OCTAVO_TRY(result.intermediate, read_count(config, "intermediate_size", 1, kMaxDeepseekWidth));
  OCTAVO_TRY(result.num_layers, read_count(config, "num_hidden_layers", 1, 1024));
  OCTAVO_TRY(result.vocab, read_count(config, "vocab_size", 1, 1 << 24));
  OCTAVO_TRY(result.max_positions, read_count(config, "max_position_embeddings", 1, 1 << 28));
  OCTAVO_TRY(const double eps, read_number(config, "rms_norm_eps", 0, 1, 1e-6));
  result.norm_eps = static_cast<float>(eps);
  OCTAVO_TRY(result.tied, read_flag(config, "tie_word_embeddings", false));
  OCTAVO_TRY(read_attention(config, result));
  OCTAVO_TRY(read_moe(config, result));
  return result;
}

}  // namespace octavo
