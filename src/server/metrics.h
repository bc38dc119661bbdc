// Metrics: what /metrics says, in Prometheus' text format: vLLM's names, labels and bucket edges, the older names that
// routers and dashboards still read, and octavo's own. Counted and written on the event loop's thread, so nothing here
// is locked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace octavo {

class Histogram {
 public:
  explicit Histogram(std::vector<double> edges) : edges_(std::move(edges)), counts_(edges_.size() + 1) {}
  void observe(double value, std::uint64_t times = 1);
  const std::vector<double>& edges() const { return edges_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }  // not cumulative; one more than edges
  double sum() const { return sum_; }

 private:
  std::vector<double> edges_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// 1, 2, 5, 10, ... up to limit.
std::vector<double> edges_1_2_5(int limit);

enum class Outcome { stop, length, abort, error, count };

// One continuation that came to its end.
struct FinishedAnswer {
  Outcome outcome = Outcome::stop;
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  int n = 1, max_tokens = 0;
  bool had_token = false;
  double end_to_end = 0, queued = 0, prefill = 0, decode = 0;  // seconds
};

// What the server knows at the moment of a scrape.
struct ServerGauges {
  int waiting = 0;  // beyond the engine's own: requests that are being turned into tokens
  std::int64_t queued_tokens = 0;
  int connections = 0;
};

class Metrics {
 public:
  Metrics(std::string model_name, int max_model_len);

  void first_token(double seconds) { time_to_first_.observe(seconds); }
  void next_token(double seconds) { inter_token_.observe(seconds); }
  void finished(const FinishedAnswer& answer);
  void aborted(std::string_view reason);  // client_gone, timeout, operator, shutdown, error
  void rejected(int status);

  std::string text(const EngineStats& stats, const EngineFacts& facts, const ServerGauges& gauges) const;

 private:
  std::string labels_;
  Histogram time_to_first_, inter_token_, per_output_token_;
  Histogram end_to_end_, queued_, inference_, prefill_, decode_;
  Histogram prompt_tokens_, generation_tokens_, max_tokens_, n_;
  std::array<std::uint64_t, static_cast<std::size_t>(Outcome::count)> outcomes_{};
  std::vector<std::pair<std::string, std::uint64_t>> aborts_, rejections_;
};

}  // namespace octavo
