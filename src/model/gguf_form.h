// What GGUF calls the parts of a dense decoder: metadata keys, tensor names, and where rope and end tokens are written.
// Shared by the families that llama.cpp writes with these names; a family's own file says how its rows are ordered.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "checkpoint/gguf.h"

namespace octavo {

// nullptr: the file has no such tensor.
const StoredTensor* find_gguf_tensor(const GgufFile& file, std::string_view name);

// One number of the metadata and what config.json calls it.
struct GgufKey {
  const char* key;   // GGUF's, after the architecture's prefix
  const char* name;  // config.json's
  bool required;
};

// Copies numbers under their config.json names, those that are there; a required one that is not is an error. `prefix`
// ends with a dot.
Status copy_gguf_keys(const GgufFile& file, const std::string& prefix, std::span<const GgufKey> keys, Json& config);
Status copy_gguf_number(const GgufFile& file, const std::string& key, const char* name, Json& config);
Json gguf_number(double number);  // a whole one as such, so that messages show it so

// Factor, betas and original length of a scaled rope.
Status copy_gguf_rope_scaling(const GgufFile& file, const std::string& prefix, Json& rope);

// What the vocabulary and the tensors tell: its size, where generations end, the model's name, whether the head is the
// embedding.
Status add_gguf_vocabulary(const GgufFile& file, Json& config);

// config.json's keys from metadata "<prefix>.block_count" and so on. Errors name the GGUF key.
Result<Json> dense_config_from_gguf(const GgufFile& file, std::string_view prefix);

// How a family reads its metadata where it says more than that of a plain decoder.
struct GgufForm {
  Result<Json> (*config)(const GgufFile& file) = nullptr;  // null: dense_config_from_gguf
  std::span<const GgufKey> keys = {};                      // which config it made of which keys
};

// What is wrong with that config, told with the names that stand in the file: "hidden_size" is
// "<prefix>.embedding_length".
Error in_gguf_words(const Error& error, std::string_view prefix, const GgufForm& form = {});

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty: GGUF has no such tensor.
std::string dense_gguf_name(const std::string& name);

// A part of a layer and what GGUF calls it, both with their endings.
using GgufPart = std::pair<std::string_view, std::string_view>;
// "model.layers.3." and one of these parts -> "blk.3." and its GGUF name; empty: it is none of them.
std::string gguf_name_of_part(const std::string& name, std::span<const GgufPart> parts);

// The same of a decoder with experts: "model.layers.3.mlp.experts.up_proj" -> "blk.3.ffn_up_exps.weight", its bias
// "..._bias" -> "....bias"; the router, "mlp.gate" or "mlp.router", is "blk.3.ffn_gate_inp".
std::string expert_gguf_name(const std::string& name);

}  // namespace octavo
