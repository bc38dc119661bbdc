// `octavo bench verbs`: where the time of a step goes: time and bytes of each verb of a prefill step and of a decode
// step, and the gaps between them.
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
