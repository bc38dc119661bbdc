// ModelSpec: the facts of a checkpoint that the engine and the tools need, read from config.json or GGUF metadata by
// the family. Sizes are of the whole model, before any cut by tensor parallel, unless they say otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/quantization.h"
#include "kv/group.h"
#include "tensor/dtype.h"

namespace octavo {

enum class CacheKind : std::uint8_t {
  grouped,  // K and V of kv_heads heads
  latent,   // one latent and one rope key for all heads
  state,    // a fixed record per sequence
  shared,   // reads the cache of layer `shared_with`
};

struct LayerSpec {
  std::string kind =
      "full_attention";  // what --kv-cache-dtype-skip-layers may name: full_attention, sliding_window, linear_attention
  CacheKind cache = CacheKind::grouped;
  int shared_with = -1;
  int window = 0;  // keys visible to a query; 0: all
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int value_dim = 0;   // width of V's heads
  int latent_dim = 0;  // latent: width of the latent; head_dim is then the width of the rope key
  bool sinks = false;
  bool soft_cap = false;
  std::vector<std::int64_t> state_parts;  // state: float32 numbers of each part of a sequence's record on this rank
};

struct ModelSpec {
  std::string family;        // "llama": the row of families.cc
  std::string architecture;  // as the checkpoint says: "LlamaForCausalLM"
  int hidden = 0;
  int vocab = 0;
  int max_positions = 0;  // after overrides
  std::vector<LayerSpec> layers;
  int experts = 0;  // of a layer that has any; 0: none has
  int experts_per_token = 0;
  std::string rope;          // the rope in effect, for people: "llama3 theta=500000 factor=8 ..."
  bool tied = false;         // the head is the embedding
  std::string stored_dtype;  // "bfloat16", "Q4_1 (mostly)"
  Quantization quantization;
  std::optional<int> bos;
  std::vector<std::int32_t> eos;  // end-of-generation ids from config and generation_config, union
};

}  // namespace octavo
