// Reading config.json: the keys that every family shares, both dialects, with bounds.
// Errors name the key, what was expected and what stands there. Sources: models.md section 1.
#pragma once

#include <string>

#include "base/json.h"
#include "model/model.h"

namespace octavo {

// A whole number in [low, high] / a number in [low, high]; the key must be there unless a default is given.
Result<int> read_count(const Json& config, const std::string& key, int low, int high);
Result<int> read_count(const Json& config, const std::string& key, int low, int high, int when_absent);
Result<double> read_number(const Json& config, const std::string& key, double low, double high, double when_absent);
Result<bool> read_flag(const Json& config, const std::string& key, bool when_absent);

// A model with towers keeps its text part's keys in "text_config". They are joined with the outer ones, which win where
// both say something; end tokens are those of both.
Json flatten_text_config(Json config);

// config.json with the overrides applied: hf_overrides key by key, rope overrides in either spelling replacing what was
// there.
Result<Json> apply_overrides(Json config, const ConfigOverrides& overrides);

// The sizes of a decoder whose layers are attention and MLP, as llama and its relatives write them.
struct DenseConfig {
  int hidden = 0;
  int intermediate = 0;
  int num_layers = 0;
  int vocab = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int max_positions = 0;
  float norm_eps = 0;
  bool tied = false;
  bool attention_bias = false;
  bool mlp_bias = false;
};
Result<DenseConfig> read_dense_config(const Json& config);

// Token ids that begin and end text: config.json and generation_config.json, a number or a list, joined.
Status read_special_ids(const Json& config, const Json& generation_config, ModelSpec& spec);

}  // namespace octavo
