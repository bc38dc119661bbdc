#include "model/deepseek_gguf.h"

#include <array>

namespace octavo {
namespace {

const std::string kDeepseekPrefix = "deepseek2.";

constexpr std::array<GgufKey, 19> kDeepseekKeys = {{
    {"block_count", "num_hidden_layers", true},
    {"context_length", "max_position_embeddings", true},
    {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"attention.q_lora_rank", "q_lora_rank", false},
    {"attention.kv_lora_rank", "kv_lora_rank", true},
    {"rope.dimension_count", "qk_rope_head_dim", true},
    {"rope.freq_base", "rope_theta", false},
    {"vocab_size", "vocab_size", false},
    {"leading_dense_block_count", "first_k_dense_replace", true},
    {"expert_count", "n_routed_experts", true},
    {"expert_used_count", "num_experts_per_tok", true},
    {"expert_feed_forward_length", "moe_intermediate_size", true},
    {"expert_shared_count", "n_shared_experts", false},
    {"expert_weights_scale", "routed_scaling_factor", false},
    {"expert_group_count", "n_group", false},
    {"expert_group_used_count", "topk_group", false},
}};

// ggml's numbers for what makes scores of experts comparable.
constexpr std::int64_t kSigmoid = 2;

// Files in which attention works on the latent itself tell the width of a head under names of their own.
Result<std::int64_t> head_width(const GgufFile& file, const std::string& key) {
  for (const std::string& name : {kDeepseekPrefix + key + "_mla", kDeepseekPrefix + key}) {
    OCTAVO_TRY(const auto width, file.find_int(name));
    if (width) return *width;
  }
  return Error("key " + kDeepseekPrefix + key + " is missing", ErrorKind::not_found);
}

// The converter writes a tenth of mscale_all_dim, which these models have equal to mscale.
Status add_rope(const GgufFile& file, Json& config) {
  OCTAVO_TRY(const auto kind, file.find_string(kDeepseekPrefix + "rope.scaling.type"));
  Json rope = Json::object();
  rope["rope_type"] = kind && *kind != "none" ? *kind : "default";
  if (config.contains("rope_theta")) rope["rope_theta"] = config["rope_theta"];
  config.erase("rope_theta");
  if (rope["rope_type"] != "default") {
    OCTAVO_TRY(copy_gguf_rope_scaling(file, kDeepseekPrefix, rope));
    OCTAVO_TRY(const auto tenth, file.find_number(kDeepseekPrefix + "rope.scaling.yarn_log_multiplier"));
    if (tenth) rope["mscale"] = rope["mscale_all_dim"] = 10 * *tenth;
  }
  config["rope_parameters"] = std::move(rope);
  return {};
}

Result<Json> deepseek_config_from_gguf(const GgufFile& file) {
  Json config = Json::object();
  OCTAVO_TRY(copy_gguf_keys(file, kDeepseekPrefix, kDeepseekKeys, config));
  OCTAVO_TRY(const std::int64_t key_width, head_width(file, "attention.key_length"));
  OCTAVO_TRY(config["v_head_dim"], head_width(file, "attention.value_length"));
  config["qk_nope_head_dim"] = gguf_number(static_cast<double>(key_width) - config["qk_rope_head_dim"].get<double>());
  OCTAVO_TRY(const auto scores, file.find_int(kDeepseekPrefix + "expert_gating_func"));
  if (scores != kSigmoid)
    return Error("key " + kDeepseekPrefix + "expert_gating_func is " + (scores ? std::to_string(*scores) : "missing") +
                     ", but only " + std::to_string(kSigmoid) + " (sigmoid) is supported",
                 ErrorKind::unsupported);
  OCTAVO_TRY(const auto renormalise, file.find_bool(kDeepseekPrefix + "expert_weights_norm"));
  config["norm_topk_prob"] = renormalise.value_or(false);
  OCTAVO_TRY(add_rope(file, config));
  OCTAVO_TRY(add_gguf_vocabulary(file, config));
  return config;
}

}  // namespace

GgufForm deepseek_gguf_form() { return {deepseek_config_from_gguf, kDeepseekKeys}; }

std::string deepseek_gguf_name(const std::string& name) {
  constexpr GgufPart kParts[] = {
      {"self_attn.q_a_proj.weight", "attn_q_a.weight"},
      {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
      {"self_attn.q_b_proj.weight", "attn_q_b.weight"},
      {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
      {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
      {"self_attn.kv_b_proj.weight", "attn_kv_b.weight"},
      {"self_attn.k_b_proj.weight", "attn_k_b.weight"},
      {"self_attn.v_b_proj.weight", "attn_v_b.weight"},
      {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
      {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
      {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
      {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
  };
  const std::string part = gguf_name_of_part(name, kParts);
  return part.empty() ? expert_gguf_name(name) : part;
}

}  // namespace octavo
