// KV scales in a checkpoint, under every spelling in use, and back into a file.
//
// Read: `P.k_scale`, `P.v_scale`, `P.q_scale` (compressed-tensors; P is the attention's prefix), `P.kv_scale` (one for both),
// `P.k_proj.k_scale`, `P.v_proj.v_scale` (ModelOpt), `P.{q,k,v}_proj.output_scale` (Quark, AutoFP8),
// `P.prob_output_scale` (accepted and not needed). Shapes: scalar, [1], [heads], [heads,1,1]. models.md 10.3.
// Refused: a scale that is not finite and positive, a wrong shape, one key given twice under two spellings with two values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace octavo {

struct StoredScales {
  std::vector<float> key;    // [kv_heads]; a scale per tensor is repeated. Empty: not in the checkpoint
  std::vector<float> value;  // [kv_heads]
  std::vector<float> query;  // [q_heads]
  bool per_head = false;
};

// `prefix`: "model.layers.3.self_attn", as the file spells it.
Result<StoredScales> read_kv_scales(const Checkpoint& checkpoint, const std::string& prefix, int q_heads, int kv_heads);

// Whether a tensor's name has the form of a KV scale (and its attention prefix), so that strays can be refused.
bool is_kv_scale_name(std::string_view name, std::string* prefix);

}  // namespace octavo
