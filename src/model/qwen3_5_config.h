// What config.json says of a Qwen3.5 model: which layers are delta nets and which attend. models.md section 5.
// Refuses by name what a checkpoint of this family cannot mean, and what octavo does not compute.
#pragma once

#include <vector>

#include "model/blocks/delta_net.h"
#include "model/config.h"
#include "model/rope.h"

namespace octavo {

struct Qwen35Config {
  DenseConfig dense;
  RopeConfig rope;
  std::vector<bool> recurrent;  // per layer
  DeltaNetConfig delta;         // but for the layer's number
};

Result<Qwen35Config> read_qwen3_5_config(const Json& config);

}  // namespace octavo
