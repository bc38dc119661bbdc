#include "model/config.h"

#include <algorithm>

#include "base/log.h"
#include "base/shown.h"
#include "base/strings.h"

namespace octavo {
namespace {

Error out_of_range(const std::string& key, const std::string& low, const std::string& high, const Json& value) {
  return Error("\"" + key + "\" must be between " + low + " and " + high + ", but is " + shown(value));
}

Status add_ids(const Json& config, const char* key, std::vector<std::int32_t>& ids) {
  const Json* value = find_member(config, key);
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
      return Error("\"" + std::string(key) + "\" must be a token id or a list of them, but is " + shown(*value));
    const auto token = id.get<std::int32_t>();
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return {};
}

// Rope keys of the config move aside, so that an override in either spelling says everything but theta.
Status replace_rope(Json& config, const Json& rope) {
  if (find_member(rope, "rope_type") == nullptr && find_member(rope, "type") == nullptr)
    return Error("the rope given by flag needs \"rope_type\": " + shown(rope));
  Json merged = Json::object();
  if (const Json* theta = find_member(config, "rope_theta")) merged["rope_theta"] = *theta;
  if (const Json* before = find_member(config, "rope_parameters"))
    if (const Json* theta = find_member(*before, "rope_theta")) merged["rope_theta"] = *theta;
  merged.update(rope);
  config.erase("rope_scaling");
  config["rope_parameters"] = std::move(merged);
  return {};
}

}  // namespace

Result<int> read_count(const Json& config, const std::string& key, int low, int high) {
  OCTAVO_TRY(const std::int64_t value, get_int(config, key));
  if (value < low || value > high) return out_of_range(key, std::to_string(low), std::to_string(high), config.at(key));
  return static_cast<int>(value);
}

Result<int> read_count(const Json& config, const std::string& key, int low, int high, int when_absent) {
  if (find_member(config, key) == nullptr) return when_absent;
  return read_count(config, key, low, high);
}

Result<double> read_number(const Json& config, const std::string& key, double low, double high, double when_absent) {
  OCTAVO_TRY(const auto value, find_number(config, key));
  if (!value) return when_absent;
  if (*value < low || *value > high) return out_of_range(key, to_text(Json(low)), to_text(Json(high)), config.at(key));
  return *value;
}

Result<bool> read_flag(const Json& config, const std::string& key, bool when_absent) {
  OCTAVO_TRY(const auto value, find_bool(config, key));
  return value.value_or(when_absent);
}

Json flatten_text_config(Json config) {
  const Json* text = find_member(config, "text_config");
  if (text == nullptr || !text->is_object()) return config;
  Json flat = *text;
  for (const auto& [key, value] : config.items()) {
    if (key == "text_config" || value.is_null()) continue;
    Json& joined = flat[key];
    if (key != "eos_token_id" || joined.is_null()) {
      joined = value;
      continue;
    }
    Json ids = value.is_array() ? value : Json::array({value});
    for (const Json& id : joined.is_array() ? joined : Json::array({joined})) ids.push_back(id);
    joined = std::move(ids);
  }
  return flat;
}

Result<Json> apply_overrides(Json config, const ConfigOverrides& overrides) {
  if (!overrides.hf_overrides.is_null() && !overrides.hf_overrides.is_object())
    return Error("--hf-overrides must be a JSON object, but is " + shown(overrides.hf_overrides));
  const Json changes = flatten_text_config(overrides.hf_overrides);
  for (const auto& [key, value] : changes.items()) {
    if ((key == "rope_scaling" || key == "rope_parameters") && value.is_object()) {
      OCTAVO_TRY(replace_rope(config, value).in("--hf-overrides"));
      continue;
    }
    if (!config.contains(key)) log::warn("--hf-overrides adds a key that the config does not have", {{"key", key}});
    if (key == "rope_theta" && find_member(config, "rope_parameters") != nullptr)
      config["rope_parameters"][key] = value;
    config[key] = value;
  }
  if (!overrides.rope_scaling.is_null()) {
    if (!overrides.rope_scaling.is_object())
      return Error("--rope-scaling must be a JSON object, but is " + shown(overrides.rope_scaling));
    OCTAVO_TRY(replace_rope(config, overrides.rope_scaling).in("--rope-scaling"));
  }
  return config;
}

Result<DenseConfig> read_dense_config(const Json& config) {
  constexpr int kMaxWidth = 1 << 20;
  DenseConfig dense;
  OCTAVO_TRY(dense.hidden, read_count(config, "hidden_size", 1, kMaxWidth));
  OCTAVO_TRY(dense.intermediate, read_count(config, "intermediate_size", 1, kMaxWidth));
  OCTAVO_TRY(dense.num_layers, read_count(config, "num_hidden_layers", 1, 1024));
  OCTAVO_TRY(dense.vocab, read_count(config, "vocab_size", 1, 1 << 24));
  OCTAVO_TRY(dense.q_heads, read_count(config, "num_attention_heads", 1, 1024));
  OCTAVO_TRY(dense.kv_heads, read_count(config, "num_key_value_heads", 1, 1024, dense.q_heads));
  if (dense.q_heads % dense.kv_heads != 0)
    return Error("\"num_attention_heads\" " + std::to_string(dense.q_heads) +
                 " is not a multiple of \"num_key_value_heads\" " + std::to_string(dense.kv_heads));
  if (find_member(config, "head_dim") == nullptr && dense.hidden % dense.q_heads != 0)
    return Error("\"head_dim\" is missing and \"hidden_size\" " + std::to_string(dense.hidden) +
                 " is not a multiple of \"num_attention_heads\" " + std::to_string(dense.q_heads));
  OCTAVO_TRY(dense.head_dim, read_count(config, "head_dim", 2, 1024, dense.hidden / dense.q_heads));
  if (dense.head_dim % 2 != 0) return Error("\"head_dim\" must be even, but is " + std::to_string(dense.head_dim));
  OCTAVO_TRY(dense.max_positions, read_count(config, "max_position_embeddings", 1, 1 << 28));
  OCTAVO_TRY(const double eps, read_number(config, "rms_norm_eps", 0, 1, 1e-6));
  dense.norm_eps = static_cast<float>(eps);
  OCTAVO_TRY(dense.tied, read_flag(config, "tie_word_embeddings", false));
  OCTAVO_TRY(dense.attention_bias, read_flag(config, "attention_bias", false));
  OCTAVO_TRY(dense.mlp_bias, read_flag(config, "mlp_bias", false));
  OCTAVO_TRY(const auto activation, find_string(config, "hidden_act"));
  if (activation && *activation != "silu")
    return Error("\"hidden_act\" " + in_quotes(*activation) + " is not supported; supported: silu",
                 ErrorKind::unsupported);
  return dense;
}

Status read_special_ids(const Json& config, const Json& generation_config, ModelSpec& spec) {
  OCTAVO_TRY(add_ids(config, "eos_token_id", spec.eos));
  OCTAVO_TRY(add_ids(generation_config, "eos_token_id", spec.eos).in("generation_config.json"));
  std::vector<std::int32_t> bos;
  OCTAVO_TRY(add_ids(config, "bos_token_id", bos));
  if (!bos.empty()) spec.bos = bos.front();
  return {};
}

}  // namespace octavo
