#include "tool/bench_throughput.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "engine/local_engine.h"
#include "terminal/console.h"
#include "terminal/statistics.h"
#include "terminal/table.h"

namespace octavo {
namespace {

int drawn_length(std::mt19937_64& random, int length, double ratio) {
  const int low = std::max(1, static_cast<int>(std::floor(length * (1 - ratio))));
  const int high = std::max(low, static_cast<int>(std::ceil(length * (1 + ratio))));
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Requests that have news, named by the engine's thread and taken by one reader: a step wakes it once, however many
// requests it serves, as a server's event loop would be.
class News {
 public:
  void add(std::size_t request) {
    const std::lock_guard lock(mutex_);
    if (requests_.empty()) changed_.notify_one();
    requests_.insert(request);
  }
  std::set<std::size_t> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !requests_.empty(); });
    return std::exchange(requests_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::size_t> requests_;
};

// What the engine's thread took for steps of decodes alone, in ms a step: read off its statistics between steps. A step
// is launched before the one before is accounted for, so a reading beside one that computed a prompt may hold part of
// that.
class DecodeWork {
 public:
  void read(const EngineStats& stats) {
    if (readings_.empty() || stats.steps > readings_.back().steps)
      readings_.push_back({stats.steps, stats.prefill_tokens, stats.host_seconds});
  }
  std::vector<double> a_step() const {
    std::vector<double> values;
    for (std::size_t i = 2; i + 1 < readings_.size(); ++i) {
      const Reading &from = readings_[i - 1], &to = readings_[i];
      if (readings_[i - 2].prefill_tokens != readings_[i + 1].prefill_tokens) continue;
      values.push_back(1000 * (to.host_seconds - from.host_seconds) / static_cast<double>(to.steps - from.steps));
    }
    return values;
  }

 private:
  struct Reading {
    std::uint64_t steps, prefill_tokens;
    double host_seconds;
  };
  std::vector<Reading> readings_;
};

// So many requests at once; the next one when one has ended.
Result<std::vector<RequestTimes>> run_clients(Engine& engine, const BenchThroughputOptions& options,
                                              const std::vector<PlannedRequest>& plan, DecodeWork& work) {
  std::vector<RequestTimes> times(plan.size());
  News news;
  std::map<std::size_t, RequestRun> running;
  std::size_t next = 0;
  while (next < plan.size() || !running.empty()) {
    while (next < plan.size() && std::ssize(running) < options.max_concurrency) {
      const std::size_t number = next++;
      auto prompt = random_ids(options.engine.seed + 1 + number, plan[number].input_len, engine.spec().vocab);
      OCTAVO_TRY(RequestRun run, RequestRun::start(engine, std::move(prompt), plan[number].output_len));
      running.emplace(number, std::move(run)).first->second.stream().on_event([&news, number] { news.add(number); });
    }
    const std::set<std::size_t> told = news.wait();
    work.read(engine.stats());
    for (const std::size_t number : told) {
      const auto run = running.find(number);
      if (run == running.end()) continue;
      OCTAVO_TRY(const bool ended, run->second.take());
      if (!ended) continue;
      times[number] = run->second.times();
      running.erase(run);
    }
  }
  return times;
}

struct Spread {
  std::string name;  // "ttft", "itl", or "decode_host": the engine's thread in a step of decodes
  std::vector<double> values;
};

std::string report_text(const OrderedJson& report, const std::vector<Spread>& spreads) {
  std::string text = "requests " + to_text(report.at("completed")) + ", concurrency " +
                     to_text(report.at("max_concurrency")) + ", " + fixed(report.at("duration").get<double>(), 3) +
                     " s: " + fixed(report.at("output_throughput").get<double>(), 1) + " output tok/s, " +
                     fixed(report.at("total_token_throughput").get<double>(), 1) + " tok/s in all; " +
                     to_text(report.at("steps")) + " steps, " + fixed(report.at("host_ms_per_step").get<double>(), 3) +
                     " ms of the engine's thread a step\n";
  Table table({"ms", "mean", "p50", "p90", "p99", "max"});
  for (const Spread& spread : spreads)
    table.add({spread.name, fixed(mean(spread.values), 3), fixed(median(spread.values), 3),
               fixed(percentile(spread.values, 90), 3), fixed(percentile(spread.values, 99), 3),
               fixed(percentile(spread.values, 100), 3)});
  return text + table.text();
}

// The engine's work between two readings of its statistics.
struct EngineWork {
  std::uint64_t steps = 0;
  double host_ms = 0;  // of a step, on the engine's thread
};

EngineWork work_between(const EngineStats& before, const EngineStats& after) {
  EngineWork work{.steps = after.steps - before.steps};
  if (work.steps > 0)
    work.host_ms = 1000 * (after.host_seconds - before.host_seconds) / static_cast<double>(work.steps);
  return work;
}

OrderedJson report_json(const BenchThroughputOptions& options, const std::vector<PlannedRequest>& plan, double seconds,
                        const std::vector<Spread>& spreads, const EngineWork& work) {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  for (const PlannedRequest& request : plan) {
    inputs += request.input_len;
    outputs += request.output_len;
  }
  OrderedJson report = {{"kv_cache_dtype", options.kv_cache_name},
                        {"completed", plan.size()},
                        {"max_concurrency", options.max_concurrency},
                        {"duration", seconds},
                        {"total_input_tokens", inputs},
                        {"total_output_tokens", outputs},
                        {"request_throughput", static_cast<double>(plan.size()) / seconds},
                        {"output_throughput", static_cast<double>(outputs) / seconds},
                        {"total_token_throughput", static_cast<double>(inputs + outputs) / seconds},
                        {"steps", work.steps},
                        {"host_ms_per_step", work.host_ms}};
  for (const Spread& spread : spreads) {
    report["mean_" + spread.name + "_ms"] = mean(spread.values);
    report["median_" + spread.name + "_ms"] = median(spread.values);
    for (const int percent : {90, 99})
      report["p" + std::to_string(percent) + "_" + spread.name + "_ms"] = percentile(spread.values, percent);
  }
  return report;
}

}  // namespace

std::vector<PlannedRequest> plan_requests(const BenchThroughputOptions& options) {
  std::mt19937_64 random(options.engine.seed);
  std::vector<PlannedRequest> plan(static_cast<std::size_t>(options.num_prompts));
  for (PlannedRequest& request : plan) {
    request.input_len = drawn_length(random, options.input_len, options.range_ratio);
    request.output_len = drawn_length(random, options.output_len, options.range_ratio);
  }
  return plan;
}

Status bench_throughput(const BenchThroughputOptions& options, const BackendFactory& make_backend) {
  OCTAVO_TRY(check_output_file(options.output_json, options.engine.model_path));
  const std::vector<PlannedRequest> plan = plan_requests(options);
  int longest = 0;
  for (const PlannedRequest& request : plan) longest = std::max(longest, request.input_len + request.output_len);
  OCTAVO_TRY(const auto model, load_model(options.engine, make_backend));
  OCTAVO_TRY(EngineConfig config, bench_config(options.engine, model->spec(), longest));
  config.max_num_seqs = std::max(config.max_num_seqs, options.max_concurrency);
  config.max_queued = std::max(config.max_queued, options.max_concurrency);
  OCTAVO_TRY(const auto engine, Engine::create(config, model));
  OCTAVO_TRY(timed_request(*engine, random_ids(options.engine.seed, plan.front().input_len, engine->spec().vocab),
                           std::min(plan.front().output_len, 8)));  // warm-up

  const EngineStats before = engine->stats();
  const auto start = std::chrono::steady_clock::now();
  DecodeWork decodes;
  OCTAVO_TRY(const std::vector<RequestTimes> times, run_clients(*engine, options, plan, decodes));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<Spread> spreads = {{"ttft", {}}, {"itl", {}}, {"decode_host", decodes.a_step()}};
  for (const RequestTimes& request : times) {
    spreads[0].values.push_back(request.ttft_ms);
    spreads[1].values.insert(spreads[1].values.end(), request.itl_ms.begin(), request.itl_ms.end());
  }
  std::erase_if(spreads, [](const Spread& spread) { return spread.values.empty(); });  // one token a request
  const OrderedJson report = report_json(options, plan, seconds, spreads, work_between(before, engine->stats()));
  if (!options.output_json.empty()) OCTAVO_TRY(write_file(options.output_json, to_text(report) + "\n"));
  return write_stdout(report_text(report, spreads));
}

}  // namespace octavo
