#include "client/bench_results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace octavo {
namespace {

// Two answers and a failure: 10 and 30 tokens, evenly spaced.
std::vector<CallTimes> three_calls() {
  std::vector<CallTimes> calls(3);
  calls[0] = {.start = 0,
              .ttft = 0.15,
              .latency = 1.05,
              .itl = std::vector<double>(9, 0.1),
              .input_tokens = 5,
              .output_tokens = 10};
  calls[1] = {.start = 0.5,
              .queue = 0.2,
              .ttft = 0.33,
              .latency = 1.78,
              .itl = std::vector<double>(29, 0.05),
              .input_tokens = 7,
              .output_tokens = 30};
  calls[2] = {
      .start = 0.5, .ttft = 9, .latency = 9, .itl = {9.0}, .input_tokens = 100, .output_tokens = 100, .error = "gone"};
  return calls;
}

TEST(BenchResults, AgainstSumsDoneByHand) {
  const auto results =
      bench_results(three_calls(), 2.5, {.percentiles = {50, 99, 99.9}, .goodput = {{"ttft", 340}, {"tpot", 60}}});
  const auto near = [&](const char* key, double value) {
    EXPECT_NEAR(results.at(key).get<double>(), value, 1e-9) << key;
  };
  near("completed", 2);
  near("failed", 1);
  near("total_input_tokens", 12);
  near("total_output_tokens", 40);
  near("request_throughput", 0.8);
  near("request_goodput", 0.4);  // the first has a tpot of 100 ms
  near("output_throughput", 16);
  near("total_token_throughput", 20.8);
  near("mean_ttft_ms", 240);
  near("median_ttft_ms", 240);
  near("std_ttft_ms", 90);
  near("p99_ttft_ms", 328.2);
  near("p99.9_ttft_ms", 329.82);
  near("mean_tpot_ms", 75);
  near("std_tpot_ms", 25);
  near("mean_itl_ms", (9 * 100 + 29 * 50) / 38.0);
  near("median_itl_ms", 50);
  near("std_itl_ms", 50 * std::sqrt(9.0 / 38 * 29 / 38));
  near("mean_e2el_ms", 1415);
  near("p50_e2el_ms", 1415);
  near("max_concurrent_requests", 2);
  near("max_output_tokens_per_s", 21);  // from 1 s on: the last of the first, and 1.03 to 1.98 of the second
  EXPECT_FALSE(results.contains("ttfts"));
}

TEST(BenchResults, NothingAnsweredIsNoDivisionByNothing) {
  std::vector<CallTimes> calls = three_calls();
  for (CallTimes& call : calls) call.error = "gone";
  const auto results = bench_results(calls, 0, {.detailed = true});
  EXPECT_EQ(results.at("completed"), 0);
  EXPECT_EQ(results.at("mean_ttft_ms"), 0.0);
  EXPECT_EQ(results.at("request_throughput"), 0.0);
  EXPECT_TRUE(results.at("request_goodput").is_null());
  EXPECT_EQ(results.at("errors").size(), 3u);
  EXPECT_NE(bench_results_text(results, {}).find("Mean TTFT (ms):"), std::string::npos);
  calls[0].error = "";
  calls[1].error = "busy";
  calls.push_back(calls[1]);
  EXPECT_EQ(failures_text(calls), "2 of 4 requests failed: busy\n1 of 4 requests failed: gone\n");
}

}  // namespace
}  // namespace octavo
