#include "model/qwen3_5_config.h"

#include "base/strings.h"

namespace octavo {
namespace {

constexpr int kMaxTaps = 8;

// Layers attend where "layer_types" says so, else each "full_attention_interval"-th.
Result<std::vector<bool>> read_recurrent_layers(const Json& config, int num_layers) {
  std::vector<bool> recurrent;
  const Json* types = find_member(config, "layer_types");
  if (types == nullptr) {
    OCTAVO_TRY(const int interval, read_count(config, "full_attention_interval", 1, 1024, 4));
    for (int i = 0; i < num_layers; ++i) recurrent.push_back((i + 1) % interval != 0);
    return recurrent;
  }
  if (!types->is_array() || types->size() != static_cast<std::size_t>(num_layers))
    return Error("\"layer_types\" must be a list of " + std::to_string(num_layers) + " names, one a layer");
  for (const Json& type : *types) {
    const std::string kind = type.is_string() ? type.get<std::string>() : to_text(type);
    if (kind != "linear_attention" && kind != "full_attention")
      return Error("\"layer_types\" holds " + in_quotes(kind) + "; known: full_attention, linear_attention");
    recurrent.push_back(kind == "linear_attention");
  }
  return recurrent;
}

Result<DeltaNetConfig> read_delta_net(const Json& config, const DenseConfig& dense) {
  DeltaNetConfig delta;
  delta.hidden = dense.hidden;
  delta.norm_eps = dense.norm_eps;
  OCTAVO_TRY(delta.key_heads, read_count(config, "linear_num_key_heads", 1, 1024));
  OCTAVO_TRY(delta.value_heads, read_count(config, "linear_num_value_heads", 1, 1024));
  if (delta.value_heads % delta.key_heads != 0)
    return Error("\"linear_num_value_heads\" " + std::to_string(delta.value_heads) +
                 " is not a multiple of \"linear_num_key_heads\" " + std::to_string(delta.key_heads));
  OCTAVO_TRY(delta.key_dim, read_count(config, "linear_key_head_dim", 1, 1024));
  OCTAVO_TRY(delta.value_dim, read_count(config, "linear_value_head_dim", 1, 1024));
  OCTAVO_TRY(delta.taps, read_count(config, "linear_conv_kernel_dim", 2, kMaxTaps));
  return delta;
}

// A share of each head is rotated: which one has to be said, for all of it would be another model.
Result<RopeConfig> read_partial_rope(const Json& config, const DenseConfig& dense) {
  OCTAVO_TRY(RopeConfig rope, read_rope(config, dense.max_positions, 10000.0));
  const Json* parameters = find_member(config, "rope_parameters");
  if (parameters == nullptr) parameters = find_member(config, "rope_scaling");
  if (find_member(config, "partial_rotary_factor") == nullptr &&
      (parameters == nullptr || find_member(*parameters, "partial_rotary_factor") == nullptr))
    return Error("\"partial_rotary_factor\" is missing");
  if (rope.kind == "proportional")
    return Error("rope type \"proportional\" is not supported for this family", ErrorKind::unsupported);
  if (make_rope(rope, dense.head_dim).inv_freq.empty())
    return Error("\"partial_rotary_factor\" rotates nothing of a head of " + std::to_string(dense.head_dim));
  return rope;
}

Status check_supported_form(const Json& config, const DenseConfig& dense) {
  OCTAVO_TRY(const bool gated, read_flag(config, "attn_output_gate", true));
  if (!gated)
    return Error("\"attn_output_gate\" false is not supported: attention of this family has a gate",
                 ErrorKind::unsupported);
  for (const auto& [key, is_set] : {std::pair("attention_bias", dense.attention_bias), {"mlp_bias", dense.mlp_bias}})
    if (is_set)
      return Error("\"" + std::string(key) + "\" true is not supported for this family", ErrorKind::unsupported);
  return {};
}

}  // namespace

Result<Qwen35Config> read_qwen3_5_config(const Json& config) {
  Qwen35Config result;
  OCTAVO_TRY(result.dense, read_dense_config(config));
  OCTAVO_TRY(check_supported_form(config, result.dense));
  OCTAVO_TRY(result.recurrent, read_recurrent_layers(config, result.dense.num_layers));
  OCTAVO_TRY(result.delta, read_delta_net(config, result.dense));
  OCTAVO_TRY(result.rope, read_partial_rope(config, result.dense));
  return result;
}

}  // namespace octavo
