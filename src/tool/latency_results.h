// What `bench latency` and `bench sweep` find: times by cache and input length, a line through each cache's inter-token
// latencies, and from which context on a cache pays. As JSON, as a table; as a page: latency_page.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/cost_model.h"

namespace octavo {

struct LatencyResult {
  std::string kv_cache_dtype;
  int input_len = 0;
  int output_len = 0;
  double ttft_ms = 0;
  double prefill_tok_s = 0;
  double itl_ms = 0;
};

struct LatencyFit {
  std::string kv_cache_dtype;
  CostModel cost;
};

struct LatencyReport {
  std::string model;
  std::string device;
  std::vector<LatencyResult> results;  // those of one cache beside each other
  std::vector<LatencyFit> fits;        // in the same order; those with a single input length have none

  // Of the first cache against the second; nullopt where the second never pays or there is none.
  std::optional<double> break_even() const;
};

// Fits the lines of report.results: inter-token latency over input length.
void add_fits(LatencyReport& report);

OrderedJson as_json(const LatencyReport& report);
std::string as_tables(const LatencyReport& report);
// "fp8 costs less than auto from 1,234 tokens on", for each cache after the first.
std::vector<std::string> break_even_sentences(const LatencyReport& report);

}  // namespace octavo
