#include "client/bench_results.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "terminal/statistics.h"
#include "terminal/table.h"

namespace octavo {
namespace {

struct MetricName {
  const char* key;
  const char* words;
  const char* heading;
};
constexpr std::array<MetricName, 5> kMetricNames = {{
    {"ttft", "TTFT", "Time to First Token"},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
    {"itl", "ITL", "Inter-token Latency"},
    {"e2el", "E2EL", "End-to-end Latency"},
    {"client_queue_time", "Client Queue Time", "Client-side Queueing"},
}};

bool answered(const CallTimes& call) { return call.error.empty(); }

double tpot_of(const CallTimes& call) {
  return call.output_tokens > 1 ? (call.latency - call.ttft) / static_cast<double>(call.output_tokens - 1) : 0;
}

// In milliseconds, of the answered requests.
std::vector<double> values_of(const std::string& metric, const std::vector<CallTimes>& calls) {
  std::vector<double> values;
  for (const CallTimes& call : calls) {
    if (!answered(call)) continue;
    if (metric == "ttft") values.push_back(1000 * call.ttft);
    if (metric == "tpot" && call.output_tokens > 1) values.push_back(1000 * tpot_of(call));
    if (metric == "e2el") values.push_back(1000 * call.latency);
    if (metric == "client_queue_time") values.push_back(1000 * call.queue);
    if (metric == "itl")
      for (const double gap : call.itl) values.push_back(1000 * gap);
  }
  return values;
}

bool is_good(const CallTimes& call, const std::map<std::string, double>& bounds) {
  for (const auto& [metric, bound] : bounds) {
    const double value = metric == "ttft" ? call.ttft : metric == "tpot" ? tpot_of(call) : call.latency;
    if (1000 * value > bound) return false;
  }
  return true;
}

// The most pieces of text in one second, counted from the first request.
double peak_tokens(const std::vector<CallTimes>& calls, double first) {
  std::map<std::int64_t, double> seconds;
  for (const CallTimes& call : calls) {
    if (!answered(call)) continue;
    double now = call.start + call.ttft;
    ++seconds[static_cast<std::int64_t>(now - first)];
    for (const double gap : call.itl) ++seconds[static_cast<std::int64_t>((now += gap) - first)];
  }
  double most = 0;
  for (const auto& [second, count] : seconds) most = std::max(most, count);
  return most;
}

int peak_requests(const std::vector<CallTimes>& calls) {
  std::vector<std::pair<double, int>> events;  // an end comes before a beginning at the same time
  for (const CallTimes& call : calls) {
    if (!answered(call)) continue;
    events.emplace_back(call.start, 1);
    events.emplace_back(call.start + call.latency, -1);
  }
  std::sort(events.begin(), events.end());
  int now = 0, most = 0;
  for (const auto& [when, change] : events) most = std::max(most, now += change);
  return most;
}

std::string percentile_word(double percent) {
  return percent == std::floor(percent) ? std::to_string(static_cast<int>(percent)) : to_text(Json(percent));
}

void add_lists(OrderedJson& results, const std::vector<CallTimes>& calls) {
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times",
                          "generated_texts", "errors"})
    results[key] = OrderedJson::array();
  for (const CallTimes& call : calls) {
    results["input_lens"].push_back(call.input_tokens);
    results["output_lens"].push_back(answered(call) ? call.output_tokens : 0);
    results["ttfts"].push_back(call.ttft);
    results["itls"].push_back(call.itl);
    results["latencies"].push_back(call.latency);
    results["start_times"].push_back(call.start);
    results["queue_times"].push_back(call.queue);
    results["generated_texts"].push_back(call.text);
    results["errors"].push_back(call.error);
  }
}

std::string labelled(const std::string& label, const std::string& value) {
  return label + std::string(label.size() < 41 ? 41 - label.size() : 1, ' ') + value + "\n";
}

std::string rule(const std::string& heading, char line) {
  const std::size_t space = 50 - std::min<std::size_t>(50, heading.size());
  return std::string(space / 2, line) + heading + std::string(space - space / 2, line) + "\n";
}

}  // namespace

std::vector<std::string> result_metrics() {
  std::vector<std::string> names;
  for (const MetricName& name : kMetricNames) names.emplace_back(name.key);
  return names;
}

OrderedJson bench_results(const std::vector<CallTimes>& calls, double duration, const ResultOptions& options) {
  std::int64_t completed = 0, good = 0, inputs = 0, outputs = 0;
  double first = INFINITY;
  for (const CallTimes& call : calls) {
    if (!answered(call)) continue;
    ++completed;
    good += is_good(call, options.goodput) ? 1 : 0;
    inputs += call.input_tokens;
    outputs += call.output_tokens;
    first = std::min(first, call.start);
  }
  const double seconds = std::max(duration, 1e-9);
  OrderedJson results = {{"duration", duration},
                         {"completed", completed},
                         {"failed", std::ssize(calls) - completed},
                         {"total_input_tokens", inputs},
                         {"total_output_tokens", outputs},
                         {"request_throughput", static_cast<double>(completed) / seconds}};
  results["request_goodput"] =
      options.goodput.empty() ? OrderedJson() : OrderedJson(static_cast<double>(good) / seconds);
  results["output_throughput"] = static_cast<double>(outputs) / seconds;
  results["total_token_throughput"] = static_cast<double>(inputs + outputs) / seconds;
  if (options.detailed) add_lists(results, calls);
  results["max_output_tokens_per_s"] = peak_tokens(calls, first);
  results["max_concurrent_requests"] = peak_requests(calls);
  for (const std::string& metric : options.metrics) {
    std::vector<double> values = values_of(metric, calls);
    if (values.empty()) values = {0};
    const std::string tail = "_" + metric + "_ms";
    results["mean" + tail] = mean(values);
    results["median" + tail] = median(values);
    results["std" + tail] = deviation(values);
    for (const double percent : options.percentiles)
      results["p" + percentile_word(percent) + tail] = percentile(values, percent);
  }
  return results;
}

std::string bench_results_text(const OrderedJson& results, const ResultOptions& options) {
  const auto number = [&](const std::string& key) { return fixed(results.at(key).get<double>(), 2); };
  const auto count = [&](const std::string& key) { return to_text(results.at(key)); };
  std::string text = rule(" Serving Benchmark Result ", '=');
  text += labelled("Successful requests:", count("completed"));
  text += labelled("Failed requests:", count("failed"));
  text += labelled("Benchmark duration (s):", number("duration"));
  text += labelled("Total input tokens:", count("total_input_tokens"));
  text += labelled("Total generated tokens:", count("total_output_tokens"));
  text += labelled("Request throughput (req/s):", number("request_throughput"));
  if (!options.goodput.empty()) text += labelled("Request goodput (req/s):", number("request_goodput"));
  text += labelled("Output token throughput (tok/s):", number("output_throughput"));
  text += labelled("Peak output token throughput (tok/s):", number("max_output_tokens_per_s"));
  text += labelled("Peak concurrent requests:", number("max_concurrent_requests"));
  text += labelled("Total token throughput (tok/s):", number("total_token_throughput"));
  for (const MetricName& name : kMetricNames) {
    if (std::find(options.metrics.begin(), options.metrics.end(), name.key) == options.metrics.end()) continue;
    const std::string tail = std::string("_") + name.key + "_ms";
    const std::string words = std::string(" ") + name.words + " (ms):";
    text += rule(name.heading, '-');
    text += labelled("Mean" + words, number("mean" + tail));
    text += labelled("Median" + words, number("median" + tail));
    for (const double percent : options.percentiles)
      text += labelled("P" + percentile_word(percent) + words, number("p" + percentile_word(percent) + tail));
  }
  return text + std::string(50, '=') + "\n";
}

std::string failures_text(const std::vector<CallTimes>& calls) {
  constexpr std::size_t kMostReasons = 10;
  std::map<std::string, int> reasons;
  for (const CallTimes& call : calls)
    if (!answered(call)) ++reasons[call.error];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [reason, count] : reasons) sorted.emplace_back(-count, reason);
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > kMostReasons) sorted.resize(kMostReasons);
  std::string text;
  for (const auto& [count, reason] : sorted)
    text += std::to_string(-count) + " of " + std::to_string(calls.size()) + " requests failed: " + reason + "\n";
  return text;
}

}  // namespace octavo
