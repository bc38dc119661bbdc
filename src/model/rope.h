// Rope: which frequencies a config asks for. All kinds of models.md section 1; both config dialects.
//
// inv_freq is float32 throughout, the power included, as the reference library computes it: one unit in its last place
// moves cos by up to 0.015 at position 262,143. An unknown kind or key is an error that names it, never a silent
// default.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "ops/ops.h"

namespace octavo {

struct RopeConfig {
  std::string kind = "default";  // default, linear, llama3, yarn, proportional
  double theta = 10000.0;
  double factor = 1.0;
  double original_max_positions = 0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 0;
  double mscale_all_dim = 0;
  double attention_factor = 0;  // 0: by the kind's formula
  bool truncate = true;
  double partial = 1.0;  // share of the head that is rotated
  std::vector<float>
      divisors;  // [pairs] or empty: each default frequency is divided by its own (GGUF's rope_freqs tensor)
};

struct RopeTable {
  std::vector<float> inv_freq;  // [pairs]
  float factor = 1.0f;          // of cos and sin
};

// Reads rope_parameters, or rope_theta and rope_scaling.
Result<RopeConfig> read_rope(const Json& config, int max_positions, double default_theta);
// head_dim: width of the head; the rotated width is partial * head_dim (all of it for proportional).
RopeTable make_rope(const RopeConfig& rope, int head_dim);
// Positions that this rope was made for: a scaled rope stretches the original length.
int rope_max_positions(const RopeConfig& rope, int max_positions);
std::string describe(const RopeConfig& rope);

}  // namespace octavo
