// `octavo eval kld`: what a cache dtype costs in quality: the divergence of the next-token distributions under it from
// those under a reference cache, at every position of a text, over one load of the weights.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"

namespace octavo {

struct EvalKldOptions {
  EngineConfig engine;                 // its kv_cache is the one that is judged
  std::string kv_cache_name = "auto";  // as the flag spells it
  KvCacheChoice reference;             // --reference-kv-cache-dtype
  std::string reference_name = "auto";
  std::string text_file;
  std::optional<int> context;
  std::string output_json;
  std::optional<int> decode_from = {};  // later tokens of a window are fed one by one
};
Status eval_kld(const EvalKldOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
