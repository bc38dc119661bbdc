// What the config of DeepSeek-V3 and its relatives (Kimi) says, in both dialects. models.md section 8.
// Refused by name: other ways to choose experts than sigmoid scores with a bias, experts that do not divide into their
// groups, biases of attention.
#pragma once

#include "model/blocks/latent_attention.h"
#include "model/blocks/moe.h"
#include "model/config.h"
#include "model/rope.h"

namespace octavo {

struct DeepseekConfig {
  int hidden = 0;
  int vocab = 0;
  int num_layers = 0;
  int num_dense = 0;  // the first layers, with an MLP of `intermediate`; the others have experts
  int intermediate = 0;
  int max_positions = 0;
  float norm_eps = 0;
  bool tied = false;
  bool interleaved = true;  // order of the rope's pairs in the file
  RopeConfig rope;
  LatentAttentionConfig attention;  // of any layer
  MoeConfig moe;
};

Result<DeepseekConfig> read_deepseek_config(const Json& config);

}  // namespace octavo
