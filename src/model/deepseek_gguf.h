// DeepSeek-V3 and its relatives as GGUF files have them (general.architecture "deepseek2"): metadata under
// config.json's names, and the names of its tensors. Keys and names are those of ggml's converter.
#pragma once

#include <string>

#include "model/gguf_form.h"

namespace octavo {

// Refuses by name experts that are chosen otherwise than by sigmoid scores.
GgufForm deepseek_gguf_form();

// "model.layers.3.self_attn.kv_a_layernorm.weight" -> "blk.3.attn_kv_a_norm.weight"; empty: GGUF has no such tensor.
std::string deepseek_gguf_name(const std::string& name);

}  // namespace octavo
