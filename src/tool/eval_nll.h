// `octavo eval nll`: the mean negative log likelihood per token of a text, in nats, and its perplexity. A token is
// predicted from those before it in its window; the first one of a text without a BOS is not.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"

namespace octavo {

struct EvalNllOptions {
  EngineConfig engine;
  std::string text_file;
  std::optional<int> context;           // tokens of a window; absent: the model's, at most 2,048
  std::string output_json;              // or empty
  std::optional<int> decode_from = {};  // later tokens of a window are fed one by one
};
Status eval_nll(const EvalNllOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
