#include "server/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

namespace octavo {
namespace {

std::string page(const Metrics& metrics) {
  EngineStats stats;
  stats.running = 2;
  stats.pages_total = 8;
  stats.pages_held = 2;
  stats.step_tokens.counts[1] = 3;
  stats.step_tokens.sum = 15;
  stats.layers.resize(1);
  EngineFacts facts;
  facts.layers.emplace_back();
  facts.layers.back().has_cache = true;
  return metrics.text(stats, facts, {.waiting = 1, .queued_tokens = 50, .connections = 3});
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, EveryNameThatRoutersAndDashboardsReadIsThere) {
  const std::string text = page(Metrics("m", 1000));
  for (const char* name : {"vllm:num_requests_running",
                           "vllm:num_requests_waiting",
                           "vllm:kv_cache_usage_perc",
                           "vllm:gpu_cache_usage_perc",
                           "vllm:prompt_tokens_total",
                           "vllm:generation_tokens_total",
                           "vllm:request_success_total",
                           "vllm:prefix_cache_queries_total",
                           "vllm:prefix_cache_hits_total",
                           "vllm:num_preemptions_total",
                           "vllm:time_to_first_token_seconds",
                           "vllm:inter_token_latency_seconds",
                           "vllm:time_per_output_token_seconds",
                           "vllm:request_time_per_output_token_seconds",
                           "vllm:e2e_request_latency_seconds",
                           "vllm:request_queue_time_seconds",
                           "vllm:request_prefill_time_seconds",
                           "vllm:request_decode_time_seconds",
                           "vllm:request_inference_time_seconds",
                           "vllm:request_prompt_tokens",
                           "vllm:request_generation_tokens",
                           "vllm:iteration_tokens_total",
                           "vllm:request_params_n",
                           "vllm:request_params_max_tokens",
                           "vllm:cache_config_info",
                           "vllm:gpu_prefix_cache_queries_total",
                           "vllm:gpu_prefix_cache_hits_total",
                           "octavo:kv_saturated_total",
                           "octavo:kv_written_total",
                           "octavo:kv_key_amax",
                           "octavo:kv_value_amax",
                           "octavo:kv_scale_source",
                           "octavo:kv_bytes_per_token",
                           "octavo:prefill_tokens_total",
                           "octavo:prefill_seconds_total",
                           "octavo:prefill_tokens_per_second",
                           "octavo:max_itl_seconds",
                           "octavo:step_seconds",
                           "octavo:queued_tokens",
                           "octavo:requests_aborted_total",
                           "octavo:requests_rejected_total"})
    EXPECT_NE(text.find("# TYPE " + std::string(name) + " "), std::string::npos) << name;
  EXPECT_TRUE(has_line(text, "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 2"));
  EXPECT_TRUE(has_line(text, "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 1"));
  EXPECT_TRUE(has_line(text, "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25"));
}

// The rules of the text format: HELP and TYPE before the values of each name, once; histograms rise and end in +Inf.
TEST(Metrics, ThePageIsWellFormed) {
  Metrics metrics("a\"b\\c", 100000);
  metrics.first_token(0.03);
  metrics.finished({.outcome = Outcome::stop, .prompt_tokens = 7, .generated_tokens = 3, .had_token = true});
  std::istringstream lines(page(metrics));
  std::set<std::string> typed;
  std::map<std::string, double> buckets;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_FALSE(line.empty());
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(typed.insert(current).second) << current << " is described twice";
      continue;
    }
    const std::string name = line.substr(0, line.find('{'));
    EXPECT_TRUE(name == current || name == current + "_bucket" || name == current + "_sum" ||
                name == current + "_count")
        << line;
    EXPECT_NE(line.find("model_name=\"a\\\"b\\\\c\""), std::string::npos) << line;
    const double value = std::stod(line.substr(line.rfind(' ')));
    if (name == current + "_bucket") {
      EXPECT_GE(value, buckets[current]) << line;
      buckets[current] = value;
    }
    if (name == current + "_count") {
      EXPECT_EQ(value, buckets[current]) << line;
    }
  }
}

TEST(Metrics, EdgesAreVllms) {
  EXPECT_EQ(edges_1_2_5(100), (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(edges_1_2_5(8192).back(), 5000);
  Metrics metrics("m", 100);
  metrics.first_token(0.001);
  metrics.first_token(0.0011);
  metrics.first_token(9999);
  const std::string text = page(metrics);
  const std::string name = "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"";
  EXPECT_TRUE(has_line(text, name + "0.001\"} 1"));
  EXPECT_TRUE(has_line(text, name + "0.005\"} 2"));
  EXPECT_TRUE(has_line(text, name + "2560.0\"} 2"));
  EXPECT_TRUE(has_line(text, name + "+Inf\"} 3"));
  EXPECT_TRUE(has_line(text, "vllm:iteration_tokens_total_bucket{engine=\"0\",model_name=\"m\",le=\"8.0\"} 3"));
  EXPECT_TRUE(has_line(text, "vllm:iteration_tokens_total_sum{engine=\"0\",model_name=\"m\"} 15"));
}

}  // namespace
}  // namespace octavo
