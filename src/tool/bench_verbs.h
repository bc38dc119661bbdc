// `octavo bench verbs`: where the time of a step goes: time and bytes of each verb on each kind of layer, of a prefill
// step and of a decode step, and the gaps between them; as shares of what the machine reads and computes at best,
// measured in the same call.
#pragma once

#include <string>

#include "tool/bench_request.h"

namespace octavo {

struct BenchVerbsOptions {
  EngineConfig engine;
  std::string kv_cache_name = "auto";
  int input_len = 1024;
  int output_len = 32;
  int num_iters = 3;
  std::string output_json;  // or empty
};
Status bench_verbs(const BenchVerbsOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
