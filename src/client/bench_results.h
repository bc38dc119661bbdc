// What `octavo bench serve` measured, under the names that vLLM's results have: throughput, and the spread of times to
// first token (ttft), between pieces of an answer (itl), per token after the first (tpot) and of whole requests (e2el).
// A failed request counts as failed and in nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace octavo {

struct CallTimes {   // in seconds
  double start = 0;  // from the start of the benchmark
  double queue = 0;  // from arrival to start: places were taken
  double ttft = 0;
  double latency = 0;
  std::vector<double> itl = {};
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::string text = {};
  std::string error = {};  // empty: it was answered
};

struct ResultOptions {
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {99};
  std::map<std::string, double> goodput = {};  // bounds in ms, of ttft, tpot and e2el
  bool detailed = false;                       // lists by request too
};

std::vector<std::string> result_metrics();  // the names that --percentile-metrics knows

nlohmann::ordered_json bench_results(const std::vector<CallTimes>& calls, double duration,
                                     const ResultOptions& options);

// For people, by the same words as vLLM's.
std::string bench_results_text(const nlohmann::ordered_json& results, const ResultOptions& options);

// "3 of 10 requests failed: REASON", a line each reason, the most frequent first; empty when none failed.
std::string failures_text(const std::vector<CallTimes>& calls);

}  // namespace octavo
