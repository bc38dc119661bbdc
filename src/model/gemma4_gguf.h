// Gemma 4 as GGUF files have it (general.architecture "gemma4"): metadata under config.json's names, and the names of
// its tensors. Keys and names are those of ggml's converter.
#pragma once

#include <string>

#include "model/gguf_form.h"

namespace octavo {

// Refuses by name layers of other widths than the family has, and experts.
GgufForm gemma4_gguf_form();

// "model.layers.3.pre_feedforward_layernorm.weight" -> "blk.3.ffn_norm.weight"; empty: GGUF has no such tensor.
std::string gemma4_gguf_name(const std::string& name);

}  // namespace octavo
