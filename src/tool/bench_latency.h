// `octavo bench latency` and `bench sweep`: time to first token and between tokens of one request at a time, for a list
// of input lengths and of caches, over one load of the weights. Medians of the iterations, after a warm-up.
#pragma once

#include <string>
#include <vector>

#include "tool/bench_request.h"

namespace octavo {

struct BenchLatencyOptions {
  EngineConfig engine;
  std::vector<CacheVariant> caches;  // engine.skip_layers: lists to measure each of them with too (cache_variants)
  std::vector<int> input_lens;       // empty: the usual ones, as far as the model goes
  int output_len = 128;
  int num_iters = 3;
  int num_warmup = 1;
  std::string output_json;  // or empty
  std::string report_file;  // one HTML page, or empty
};
Status bench_latency(const BenchLatencyOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
