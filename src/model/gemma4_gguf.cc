#include "model/gemma4_gguf.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/shown.h"

namespace octavo {
namespace {

const std::string kGemma4Prefix = "gemma4.";

constexpr std::array<GgufKey, 13> kGemma4Keys = {{
    {"block_count", "num_hidden_layers", true},
    {"context_length", "max_position_embeddings", true},
    {"embedding_length", "hidden_size", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.key_length", "global_head_dim", true},
    {"attention.key_length_swa", "head_dim", true},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"attention.sliding_window", "sliding_window", false},
    {"attention.shared_kv_layers", "num_kv_shared_layers", false},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", false},
    {"final_logit_softcapping", "final_logit_softcapping", false},
    {"vocab_size", "vocab_size", false},
    {"expert_count", "num_experts", false},
}};

// One number for each layer, where the file may say one for all.
Result<std::vector<std::int64_t>> numbers_of_layers(const GgufFile& file, const std::string& key,
                                                    std::size_t num_layers) {
  if (const auto* list = file.find_ints(kGemma4Prefix + key)) {
    if (list->size() == num_layers) return *list;
    return Error("key " + kGemma4Prefix + key + " has " + std::to_string(list->size()) + " numbers for " +
                 std::to_string(num_layers) + " layers");
  }
  OCTAVO_TRY(const auto one, file.find_int(kGemma4Prefix + key));
  if (!one) return Error("key " + kGemma4Prefix + key + " is missing", ErrorKind::not_found);
  return std::vector<std::int64_t>(num_layers, *one);
}

Status add_layers(const GgufFile& file, std::size_t num_layers, Json& config) {
  OCTAVO_TRY(const auto slides, numbers_of_layers(file, "attention.sliding_window_pattern", num_layers));
  OCTAVO_TRY(const auto kv_heads, numbers_of_layers(file, "attention.head_count_kv", num_layers));
  OCTAVO_TRY(const auto widths, numbers_of_layers(file, "feed_forward_length", num_layers));
  const double told = config.value("num_kv_shared_layers", 0.0);
  const auto sharing = static_cast<std::size_t>(std::clamp(told, 0.0, static_cast<double>(num_layers)));
  const std::size_t first_sharing = num_layers - sharing;
  Json types = Json::array();
  Json sizes = Json::object();
  for (std::size_t i = 0; i < num_layers; ++i) {
    types.push_back(slides[i] != 0 ? "sliding_attention" : "full_attention");
    sizes[std::to_string(i)] = {{"num_key_value_heads", kv_heads[i]}};
    if (widths[i] != widths[i < first_sharing ? 0 : num_layers - 1])
      return Error("key " + kGemma4Prefix + "feed_forward_length: layer " + std::to_string(i) + " is " +
                       std::to_string(widths[i]) + " wide, unlike the layers beside it, which is not supported",
                   ErrorKind::unsupported);
    const std::string prefix = "blk." + std::to_string(i);
    if (i < first_sharing && slides[i] == 0 && find_gguf_tensor(file, prefix + ".attn_v.weight") == nullptr)
      config["attention_k_eq_v"] = true;
  }
  const bool wider = sharing > 0 && widths.back() != widths.front();
  if (wider && (widths.back() % 2 != 0 || widths.back() / 2 != widths.front()))
    return Error("key " + kGemma4Prefix + "feed_forward_length: the layers that share a cache are " +
                     std::to_string(widths.back()) + " wide, which is not twice the others' " +
                     std::to_string(widths.front()) + " and not supported",
                 ErrorKind::unsupported);
  config["layer_types"] = std::move(types);
  config["per_layer_config"] = std::move(sizes);
  config["num_key_value_heads"] = kv_heads.front();
  config["intermediate_size"] = widths.front();
  config["use_double_wide_mlp"] = wider;
  return {};
}

// Full layers rotate the first pairs of a head only: the divisors of the others are so large that they stand still.
Result<double> rotated_share(const GgufFile& file) {
  const StoredTensor* tensor = find_gguf_tensor(file, "rope_freqs.weight");
  if (tensor == nullptr) return Error("tensor rope_freqs.weight is missing", ErrorKind::not_found);
  OCTAVO_TRY(const std::vector<float> divisors, read_floats(*tensor));
  const auto still = std::find_if(divisors.begin(), divisors.end(), [](float divisor) { return divisor != 1.0f; });
  if (std::any_of(still, divisors.end(), [](float divisor) { return !(divisor > 1e20f); }))
    return Error("tensor rope_freqs.weight must hold ones, then numbers so large that nothing turns",
                 ErrorKind::unsupported);
  if (still == divisors.begin()) return Error("tensor rope_freqs.weight: no pair of a head would be rotated");
  return static_cast<double>(still - divisors.begin()) / static_cast<double>(divisors.size());
}

Status add_ropes(const GgufFile& file, Json& config) {
  Json full = {{"rope_type", "proportional"}};
  OCTAVO_TRY(const double share, rotated_share(file));
  full["partial_rotary_factor"] = share;
  OCTAVO_TRY(copy_gguf_number(file, kGemma4Prefix + "rope.freq_base", "rope_theta", full));
  Json sliding = {{"rope_type", "default"}};
  OCTAVO_TRY(copy_gguf_number(file, kGemma4Prefix + "rope.freq_base_swa", "rope_theta", sliding));
  OCTAVO_TRY(const auto width, file.find_number(kGemma4Prefix + "rope.dimension_count_swa"));
  if (width && *width != config.at("head_dim").get<double>())
    return Error(
        "key " + kGemma4Prefix + "rope.dimension_count_swa differs from the size of the heads, which is not supported",
        ErrorKind::unsupported);
  config["rope_parameters"] = {{"full_attention", std::move(full)}, {"sliding_attention", std::move(sliding)}};
  return {};
}

Result<Json> gemma4_config_from_gguf(const GgufFile& file) {
  Json config = Json::object();
  OCTAVO_TRY(copy_gguf_keys(file, kGemma4Prefix, kGemma4Keys, config));
  if (config.value("num_experts", 0.0) > 0) config["enable_moe_block"] = true;
  const auto num_layers = config.at("num_hidden_layers").get<double>();
  if (num_layers < 1 || num_layers > 1024)
    return Error("key " + kGemma4Prefix + "block_count must be between 1 and 1024, but is " +
                 shown(config.at("num_hidden_layers")));
  if (!config.contains("num_kv_shared_layers")) config["num_kv_shared_layers"] = 0;
  if (!config.contains("hidden_size_per_layer_input")) config["hidden_size_per_layer_input"] = 0;
  OCTAVO_TRY(add_layers(file, static_cast<std::size_t>(num_layers), config));
  OCTAVO_TRY(add_ropes(file, config));
  if (const StoredTensor* inputs = find_gguf_tensor(file, "per_layer_token_embd.weight");
      inputs && !inputs->shape.empty())
    config["vocab_size_per_layer_input"] = inputs->shape.front();
  OCTAVO_TRY(add_gguf_vocabulary(file, config));
  return config;
}

}  // namespace

GgufForm gemma4_gguf_form() { return {gemma4_config_from_gguf, kGemma4Keys}; }

std::string gemma4_gguf_name(const std::string& name) {
  constexpr GgufPart kParts[] = {
      {"post_attention_layernorm.weight", "post_attention_norm.weight"},
      {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
      {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
      {"per_layer_input_gate.weight", "inp_gate.weight"},
      {"per_layer_projection.weight", "proj.weight"},
      {"post_per_layer_input_norm.weight", "post_norm.weight"},
      {"layer_scalar", "layer_output_scale.weight"},
  };
  if (name == "model.embed_tokens_per_layer.weight") return "per_layer_token_embd.weight";
  if (name == "model.per_layer_model_projection.weight") return "per_layer_model_proj.weight";
  if (name == "model.per_layer_projection_norm.weight") return "per_layer_proj_norm.weight";
  const std::string part = gguf_name_of_part(name, kParts);
  return part.empty() ? dense_gguf_name(name) : part;
}

}  // namespace octavo
