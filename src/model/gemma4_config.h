// What Gemma 4's config says of each layer, in both dialects. models.md section 7.
// Refused by name: kinds of layers that are not known, sharing without an earlier layer of the kind, head sizes that
// nothing tells, experts (enable_moe_block), attention to later tokens.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/rope.h"

namespace octavo {

struct Gemma4Layer {
  bool slides = false;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int shared_with = -1;       // the layer whose K and V are read; -1: its own
  bool value_is_key = false;  // no v_proj
};

struct Gemma4Config {
  int hidden = 0;
  int vocab = 0;
  int q_heads = 0;
  int window = 0;
  int max_positions = 0;
  float norm_eps = 0;
  bool bias = false;
  bool tied = true;
  int per_layer_width = 0;  // hidden_size_per_layer_input; 0: no such inputs
  int per_layer_vocab = 0;
  float logit_cap = 0;  // 0: none
  RopeConfig sliding_rope;
  RopeConfig full_rope;
  std::vector<Gemma4Layer> layers;

  int first_sharing() const;  // the number of the first layer that has no cache of its own
};

Result<Gemma4Config> read_gemma4_config(const Json& config);

}  // namespace octavo
