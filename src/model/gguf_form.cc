#include "model/gguf_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/shown.h"

namespace octavo {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kLayerParts = {{
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
}};

// In harmony an answer is several messages: each ends with <|end|>, all of them with this or a call.
constexpr std::string_view kHarmonyEnd = "<|return|>";

// Control tokens that end a generation whatever eos_token_id says; files often name only one of them.
constexpr std::array<std::string_view, 9> kEndTokens = {"<|endoftext|>",   "<|im_end|>", "<|eot_id|>",
                                                        "<|eom_id|>",      "<|end|>",    "<end_of_turn>",
                                                        "<|end_of_text|>", kHarmonyEnd,  "<|call|>"};
constexpr std::int64_t kControlToken = 3;

constexpr std::array<GgufKey, 13> kKeys = {{
    {"block_count", "num_hidden_layers", true},
    {"context_length", "max_position_embeddings", true},
    {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"vocab_size", "vocab_size", false},
    {"expert_count", "num_experts", false},
    {"expert_used_count", "num_experts_per_tok", false},
    {"expert_feed_forward_length", "moe_intermediate_size", false},
    {"attention.sliding_window", "sliding_window", false},
}};
constexpr GgufKey kRopeBase{"rope.freq_base", "rope_theta", false};
constexpr std::array<GgufKey, 4> kRopeScaling = {{
    {"rope.scaling.factor", "factor", false},
    {"rope.scaling.yarn_beta_fast", "beta_fast", false},
    {"rope.scaling.yarn_beta_slow", "beta_slow", false},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", false},
}};

// These families rotate whole heads; a file that says otherwise is not silently read so.
Status check_rope_width(const GgufFile& file, const std::string& prefix, const Json& config) {
  OCTAVO_TRY(const auto width, file.find_number(prefix + "rope.dimension_count"));
  const double heads = config.at("num_attention_heads").get<double>();
  const double head_dim = config.value("head_dim", config.at("hidden_size").get<double>() / heads);
  if (!std::isfinite(head_dim) || head_dim != std::trunc(head_dim))
    return {};  // heads that do not divide are refused by their own name
  if (width && *width != head_dim)
    return Error(prefix + "rope.dimension_count " + shown(gguf_number(*width)) + " differs from the head size " +
                     shown(gguf_number(head_dim)) + ", which is not supported",
                 ErrorKind::unsupported);
  return {};
}

Status read_rope_scaling(const GgufFile& file, const std::string& prefix, Json& rope) {
  OCTAVO_TRY(const auto kind, file.find_string(prefix + "rope.scaling.type"));
  if (kind && *kind != "none") {
    rope["rope_type"] = *kind;
    OCTAVO_TRY(copy_gguf_rope_scaling(file, prefix, rope));
  }
  const StoredTensor* tensor = find_gguf_tensor(file, "rope_freqs.weight");
  if (tensor == nullptr) return {};
  if (tensor->dtype != DType::f32) return Error("tensor rope_freqs.weight must be F32");
  OCTAVO_TRY(rope["divisors"], read_floats(*tensor));
  return {};
}

Result<Json> end_tokens(const GgufFile& file) {
  std::vector<std::int64_t> ids;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    OCTAVO_TRY(const auto id, file.find_int(key));
    if (id) ids.push_back(*id);
  }
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  const auto* types = file.find_ints("tokenizer.ggml.token_type");
  const bool harmony = tokens && std::find(tokens->begin(), tokens->end(), kHarmonyEnd) != tokens->end();
  for (std::size_t i = 0; tokens && types && i < std::min(tokens->size(), types->size()); ++i) {
    const std::string& token = (*tokens)[i];
    if ((*types)[i] != kControlToken || (harmony && token == "<|end|>")) continue;
    if (std::find(kEndTokens.begin(), kEndTokens.end(), token) != kEndTokens.end())
      ids.push_back(static_cast<std::int64_t>(i));
  }
  return Json(ids);
}

}  // namespace

const StoredTensor* find_gguf_tensor(const GgufFile& file, std::string_view name) {
  const auto found = std::find_if(file.tensors().begin(), file.tensors().end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == file.tensors().end() ? nullptr : &*found;
}

Json gguf_number(double number) {
  const bool whole = number == std::trunc(number) && std::fabs(number) < 0x1p53;
  return whole ? Json(static_cast<std::int64_t>(number)) : Json(number);
}

Status copy_gguf_number(const GgufFile& file, const std::string& key, const char* name, Json& config) {
  OCTAVO_TRY(const auto value, file.find_number(key));
  if (value) config[name] = gguf_number(*value);
  return {};
}

Status copy_gguf_keys(const GgufFile& file, const std::string& prefix, std::span<const GgufKey> keys, Json& config) {
  for (const GgufKey& pair : keys) {
    OCTAVO_TRY(copy_gguf_number(file, prefix + pair.key, pair.name, config));
    if (pair.required && !config.contains(pair.name))
      return Error("key " + prefix + pair.key + " is missing", ErrorKind::not_found);
  }
  return {};
}

Status copy_gguf_rope_scaling(const GgufFile& file, const std::string& prefix, Json& rope) {
  return copy_gguf_keys(file, prefix, kRopeScaling, rope);
}

Status add_gguf_vocabulary(const GgufFile& file, Json& config) {
  if (!config.contains("vocab_size"))
    if (const auto* tokens = file.find_strings("tokenizer.ggml.tokens")) config["vocab_size"] = tokens->size();
  config["tie_word_embeddings"] = find_gguf_tensor(file, "output.weight") == nullptr;
  OCTAVO_TRY(config["eos_token_id"], end_tokens(file));
  OCTAVO_TRY(const auto bos, file.find_int("tokenizer.ggml.bos_token_id"));
  if (bos) config["bos_token_id"] = *bos;
  OCTAVO_TRY(const auto name, file.find_string("general.name"));
  if (name) config["_name_or_path"] = *name;
  return {};
}

Result<Json> dense_config_from_gguf(const GgufFile& file, std::string_view architecture) {
  const std::string prefix = std::string(architecture) + ".";
  Json config = Json::object();
  OCTAVO_TRY(copy_gguf_keys(file, prefix, kKeys, config));
  OCTAVO_TRY(check_rope_width(file, prefix, config));
  Json rope = Json::object();
  OCTAVO_TRY(copy_gguf_number(file, prefix + kRopeBase.key, kRopeBase.name, rope));
  OCTAVO_TRY(read_rope_scaling(file, prefix, rope));
  config["rope_parameters"] = std::move(rope);
  config["attention_bias"] = find_gguf_tensor(file, "blk.0.attn_q.bias") != nullptr;
  OCTAVO_TRY(add_gguf_vocabulary(file, config));
  return config;
}

Error in_gguf_words(const Error& error, std::string_view prefix, const GgufForm& form) {
  std::string message = error.message();
  std::vector<GgufKey> pairs(form.keys.begin(), form.keys.end());
  if (form.config == nullptr) pairs.assign(kKeys.begin(), kKeys.end());
  pairs.insert(pairs.end(), kRopeScaling.begin(), kRopeScaling.end());
  pairs.push_back(kRopeBase);
  for (const GgufKey& pair : pairs) {
    const std::string name = "\"" + std::string(pair.name) + "\"";
    const std::string key = "\"" + std::string(prefix) + "." + pair.key + "\"";
    for (std::size_t at = 0; (at = message.find(name, at)) != std::string::npos; at += key.size())
      message.replace(at, name.size(), key);
  }
  return Error(std::move(message), error.kind());
}

std::string dense_gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  const std::size_t dot = name.find('.', kLayers.size());
  if (dot == std::string::npos) return "";
  const std::string index = name.substr(kLayers.size(), dot - kLayers.size());
  const std::size_t last = name.rfind('.');  // ".weight" or ".bias"
  for (const auto& [ours, theirs] : kLayerParts)
    if (last > dot && std::string_view(name).substr(dot + 1, last - dot - 1) == ours)
      return "blk." + index + "." + std::string(theirs) + name.substr(last);
  return "";
}

std::string gguf_name_of_part(const std::string& name, std::span<const GgufPart> parts) {
  for (const auto& [ours, theirs] : parts) {
    if (!name.ends_with("." + std::string(ours))) continue;
    const std::string sibling = dense_gguf_name(name.substr(0, name.size() - ours.size()) + "input_layernorm.weight");
    if (!sibling.empty()) return sibling.substr(0, sibling.rfind("attn_norm")) + std::string(theirs);
  }
  return "";
}

std::string expert_gguf_name(const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return dense_gguf_name(name);
  const std::string layer = dense_gguf_name(name.substr(0, at) + ".mlp.gate.weight");
  const std::string block = layer.substr(0, layer.find("ffn_"));
  for (const char* part : {"gate", "up", "down"}) {
    const std::string ours = std::string(part) + "_proj";
    const std::string theirs = block + "ffn_" + part + "_exps";
    if (name.substr(at + kExperts.size()) == ours) return theirs + ".weight";
    if (name.substr(at + kExperts.size()) == ours + "_bias") return theirs + ".bias";
  }
  return "";
}

}  // namespace octavo
