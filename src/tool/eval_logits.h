// `octavo eval logits`: the logits of every position through the ordinary engine path, for comparing a port with its
// reference.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"

namespace octavo {

struct EvalLogitsOptions {
  EngineConfig engine;
  std::string ids_file;            // a JSON list of token ids
  std::string output;              // safetensors: "logits" f32 [ids, vocab]
  std::optional<int> decode_from;  // later tokens are fed one by one
};
Status eval_logits(const EvalLogitsOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
