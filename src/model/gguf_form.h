// What GGUF calls the parts of a dense decoder: metadata keys, tensor names, and where rope and end tokens are written.
// Shared by the families that llama.cpp writes with these names; a family's own file says how its rows are ordered.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/gguf.h"

namespace octavo {

// config.json's keys from metadata "<prefix>.block_count" and so on. Errors name the GGUF key.
Result<Json> dense_config_from_gguf(const GgufFile& file, std::string_view prefix);

// What is wrong with that config, told with the names that stand in the file: "hidden_size" is
// "<prefix>.embedding_length".
Error in_gguf_words(const Error& error, std::string_view prefix);

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty: GGUF has no such tensor.
std::string dense_gguf_name(const std::string& name);

// The same of a decoder with experts: "model.layers.3.mlp.experts.up_proj" -> "blk.3.ffn_up_exps.weight", its bias
// "..._bias" -> "....bias"; the router, "mlp.gate" or "mlp.router", is "blk.3.ffn_gate_inp".
std::string expert_gguf_name(const std::string& name);

}  // namespace octavo
