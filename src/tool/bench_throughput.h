// `octavo bench throughput`: a fixed set of requests, a fixed number of them at a time: output tokens a second, and how
// times to first token and between tokens are spread. The set depends on the seed alone.
#pragma once

#include <string>
#include <vector>

#include "tool/bench_request.h"

namespace octavo {

struct BenchThroughputOptions {
  EngineConfig engine;
  std::string kv_cache_name = "auto";
  int num_prompts = 100;
  int max_concurrency = 8;
  int input_len = 512;
  int output_len = 128;
  double range_ratio = 0;   // lengths are drawn from [len (1 - r), len (1 + r)]
  std::string output_json;  // or empty
};
Status bench_throughput(const BenchThroughputOptions& options, const BackendFactory& make_backend);

struct PlannedRequest {
  int input_len = 0;
  int output_len = 0;
};
std::vector<PlannedRequest> plan_requests(const BenchThroughputOptions& options);

}  // namespace octavo
