#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace octavo {
namespace {

const std::vector<double> kFirstTokenEdges = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                              1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kTokenEdges = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                         0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const std::vector<double> kRequestEdges = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                           30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr std::array<const char*, 4> kOutcomeNames = {"stop", "length", "abort", "error"};

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), value).ptr;
  return std::string(digits.data(), end);
}

// As Prometheus' own clients write edges: 1.0, not 1.
std::string edge_text(double value) {
  std::string text = number(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

class Page {
 public:
  explicit Page(const std::string& labels) : labels_(labels) {}

  void describe(std::string_view name, const char* type, const char* help) {
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
    text_.append(type).append("\n");
  }
  void value(std::string_view name, double number_value, const std::string& more = {}) {
    text_.append(name).append("{").append(labels_).append(more).append("} ").append(number(number_value)).append("\n");
  }
  void gauge(const char* name, const char* help, double value_now) {
    describe(name, "gauge", help);
    value(name, value_now);
  }
  void counter(const char* name, const char* help, double value_now) {
    describe(name, "counter", help);
    value(name, value_now);
  }
  template <class Edges, class Counts>
  void histogram(const std::string& name, const char* help, const Edges& edges, const Counts& counts, double sum) {
    describe(name, "histogram", help);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      total += counts[i];
      const std::string edge = i < edges.size() ? edge_text(edges[i]) : "+Inf";
      value(name + "_bucket", static_cast<double>(total), ",le=\"" + edge + "\"");
    }
    value(name + "_count", static_cast<double>(total));
    value(name + "_sum", sum);
  }
  void histogram(const std::string& name, const char* help, const Histogram& h) {
    histogram(name, help, h.edges(), h.counts(), h.sum());
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string& labels_;
  std::string text_;
};

void write_engine(Page& page, const EngineStats& stats, const ServerGauges& gauges) {
  const double usage =
      stats.pages_total > 0 ? static_cast<double>(stats.pages_held) / static_cast<double>(stats.pages_total) : 0.0;
  page.gauge("vllm:num_requests_running", "Requests that take part in steps.", stats.running);
  page.gauge("vllm:num_requests_waiting", "Requests that wait for a place.", stats.waiting + gauges.waiting);
  page.gauge("vllm:kv_cache_usage_perc", "Share of the cache's pages that are held by requests, 0 to 1.", usage);
  page.gauge("vllm:gpu_cache_usage_perc", "Older name of vllm:kv_cache_usage_perc.", usage);
  const auto queries = static_cast<double>(stats.prompt_tokens);
  const auto hits = static_cast<double>(stats.cached_prompt_tokens);
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked for in the cache.", queries);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens that were found in the cache.", hits);
  page.counter("vllm:gpu_prefix_cache_queries_total", "Older name of vllm:prefix_cache_queries_total.", queries);
  page.counter("vllm:gpu_prefix_cache_hits_total", "Older name of vllm:prefix_cache_hits_total.", hits);
  page.counter("vllm:num_preemptions_total", "Requests that gave up their pages and began anew.",
               static_cast<double>(stats.preemptions));
  page.counter("vllm:prompt_tokens_total", "Prompt tokens processed.", queries);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", static_cast<double>(stats.generated_tokens));
  page.histogram("vllm:iteration_tokens_total", "Tokens of a step.", kStepTokenEdges, stats.step_tokens.counts,
                 stats.step_tokens.sum);
  page.histogram("octavo:step_seconds", "Seconds of a step.", kStepSecondEdges, stats.step_seconds.counts,
                 stats.step_seconds.sum);
  page.counter("octavo:host_seconds_total", "Seconds that the engine's thread worked beside the device.",
               stats.host_seconds);
  page.counter("octavo:prefill_tokens_total", "Prompt tokens computed, those computed anew too.",
               static_cast<double>(stats.prefill_tokens));
  page.counter("octavo:prefill_seconds_total", "Seconds of the steps that computed any of them.",
               stats.prefill_seconds);
  page.gauge("octavo:prefill_tokens_per_second", "Prompt tokens a second in the last of those steps.",
             stats.prefill_rate);
  page.gauge("octavo:queued_tokens", "Prompt tokens of requests that have no first token yet.",
             static_cast<double>(gauges.queued_tokens));
  page.gauge("octavo:connections", "Open connections.", gauges.connections);
  page.gauge("octavo:kv_pages_held", "Pages of the cache held by requests.", static_cast<double>(stats.pages_held));
  page.gauge("octavo:kv_pages_cached", "Pages of the cache kept for later requests.",
             static_cast<double>(stats.pages_cached));
  page.gauge("octavo:kv_pages_free", "Pages of the cache that hold nothing.", static_cast<double>(stats.pages_free));
  page.gauge("octavo:state_records", "Records of recurrent states that there are.",
             static_cast<double>(stats.records_total));
  page.gauge("octavo:state_records_held", "Records of recurrent states held by requests.",
             static_cast<double>(stats.records_held));
  page.gauge("octavo:state_snapshots", "Records kept as they were at a page's end, for later requests.",
             static_cast<double>(stats.records_cached));
}

void write_layers(Page& page, const EngineStats& stats, const EngineFacts& facts) {
  const auto each = [&](const char* name, const char* type, const char* help, auto value_of) {
    page.describe(name, type, help);
    for (std::size_t i = 0; i < facts.layers.size() && i < stats.layers.size(); ++i)
      if (facts.layers[i].has_cache)
        page.value(name, value_of(stats.layers[i].counters), ",layer=\"" + std::to_string(i) + "\"");
  };
  each("octavo:kv_saturated_total", "counter", "Numbers that were clipped to the cache's largest code.",
       [](const KvCounters& c) { return static_cast<double>(c.saturated); });
  each("octavo:kv_written_total", "counter", "Numbers written into the cache.",
       [](const KvCounters& c) { return static_cast<double>(c.written); });
  each("octavo:kv_key_amax", "gauge", "Largest key before scaling and rounding.",
       [](const KvCounters& c) { return static_cast<double>(c.key_amax); });
  each("octavo:kv_value_amax", "gauge", "Largest value before scaling and rounding.",
       [](const KvCounters& c) { return static_cast<double>(c.value_amax); });
  page.describe("octavo:kv_scale_source", "gauge", "Always 1; where the layer's KV scales come from.");
  for (std::size_t i = 0; i < facts.layers.size(); ++i)
    if (facts.layers[i].has_cache)
      page.value(
          "octavo:kv_scale_source", 1,
          ",layer=\"" + std::to_string(i) + "\",source=\"" + escaped(name_of(facts.layers[i].scale_source)) + "\"");
  page.gauge("octavo:max_itl_seconds", "The bound of --max-itl-ms on the gap between tokens; 0: none.",
             facts.max_itl_ms / 1000);
  page.gauge("octavo:kv_bytes_per_token", "Bytes of the cache that a token of context takes.",
             static_cast<double>(facts.kv_bytes_per_token));
}

void write_config(Page& page, const EngineStats& stats, const EngineFacts& facts) {
  page.describe("vllm:cache_config_info", "gauge", "Always 1; the cache in words.");
  page.value("vllm:cache_config_info", 1,
             ",block_size=\"" + std::to_string(facts.page_size) + "\",num_gpu_blocks=\"" +
                 std::to_string(stats.pages_total) + "\",capacity_tokens=\"" + std::to_string(facts.capacity_tokens) +
                 "\",kv_cache_bytes=\"" + std::to_string(facts.kv_cache_bytes) + "\"");
}

void count(std::vector<std::pair<std::string, std::uint64_t>>& counts, std::string_view name) {
  const auto same = [&](const auto& entry) { return entry.first == name; };
  const auto known = std::find_if(counts.begin(), counts.end(), same);
  if (known == counts.end())
    counts.emplace_back(name, 1);
  else
    ++known->second;
}

}  // namespace

void Histogram::observe(double value, std::uint64_t times) {
  const auto edge = std::lower_bound(edges_.begin(), edges_.end(), value);
  counts_[static_cast<std::size_t>(edge - edges_.begin())] += times;
  sum_ += value * static_cast<double>(times);
}

std::vector<double> edges_1_2_5(int limit) {
  std::vector<double> edges;
  for (double power = 1; power <= limit; power *= 10)
    for (const double digit : {1.0, 2.0, 5.0})
      if (digit * power <= limit) edges.push_back(digit * power);
  return edges;
}

Metrics::Metrics(std::string model_name, int max_model_len)
    : labels_("engine=\"0\",model_name=\"" + escaped(model_name) + "\""),
      time_to_first_(kFirstTokenEdges),
      inter_token_(kTokenEdges),
      per_output_token_(kTokenEdges),
      end_to_end_(kRequestEdges),
      queued_(kRequestEdges),
      inference_(kRequestEdges),
      prefill_(kRequestEdges),
      decode_(kRequestEdges),
      prompt_tokens_(edges_1_2_5(max_model_len)),
      generation_tokens_(edges_1_2_5(max_model_len)),
      max_tokens_(edges_1_2_5(max_model_len)),
      n_({1, 2, 5, 10, 20}) {
  for (const char* reason : {"client_gone", "timeout", "operator", "shutdown", "error"})
    aborts_.emplace_back(reason, 0);
  for (const char* status : {"429", "503"}) rejections_.emplace_back(status, 0);
}

void Metrics::finished(const FinishedAnswer& answer) {
  ++outcomes_[static_cast<std::size_t>(answer.outcome)];
  n_.observe(answer.n);
  if (answer.max_tokens > 0) max_tokens_.observe(answer.max_tokens);
  prompt_tokens_.observe(static_cast<double>(answer.prompt_tokens));
  generation_tokens_.observe(static_cast<double>(answer.generated_tokens));
  end_to_end_.observe(answer.end_to_end);
  if (!answer.had_token) return;
  queued_.observe(answer.queued);
  prefill_.observe(answer.prefill);
  decode_.observe(answer.decode);
  inference_.observe(answer.prefill + answer.decode);
  if (answer.generated_tokens > 1)
    per_output_token_.observe(answer.decode / static_cast<double>(answer.generated_tokens - 1));
}

void Metrics::aborted(std::string_view reason) { count(aborts_, reason); }
void Metrics::rejected(int status) { count(rejections_, std::to_string(status)); }

std::string Metrics::text(const EngineStats& stats, const EngineFacts& facts, const ServerGauges& gauges) const {
  Page page(labels_);
  write_engine(page, stats, gauges);
  page.describe("vllm:request_success_total", "counter", "Answers by the reason for which they ended.");
  for (std::size_t i = 0; i < outcomes_.size(); ++i)
    page.value("vllm:request_success_total", static_cast<double>(outcomes_[i]),
               std::string(",finished_reason=\"") + kOutcomeNames[i] + "\"");
  page.describe("octavo:requests_aborted_total", "counter", "Requests that were ended early, by reason.");
  for (const auto& [reason, times] : aborts_)
    page.value("octavo:requests_aborted_total", static_cast<double>(times), ",reason=\"" + reason + "\"");
  page.describe("octavo:requests_rejected_total", "counter", "Requests that were turned away, by status.");
  for (const auto& [status, times] : rejections_)
    page.value("octavo:requests_rejected_total", static_cast<double>(times), ",status=\"" + status + "\"");
  page.histogram("vllm:time_to_first_token_seconds", "Seconds from a request's arrival to its first token.",
                 time_to_first_);
  page.histogram("vllm:inter_token_latency_seconds", "Seconds between two tokens of an answer.", inter_token_);
  page.histogram("vllm:time_per_output_token_seconds", "Older name of vllm:inter_token_latency_seconds.", inter_token_);
  page.histogram("vllm:request_time_per_output_token_seconds", "Mean seconds a token of an answer.", per_output_token_);
  page.histogram("vllm:e2e_request_latency_seconds", "Seconds from a request's arrival to its last token.",
                 end_to_end_);
  page.histogram("vllm:request_queue_time_seconds", "Seconds that a request waited.", queued_);
  page.histogram("vllm:request_inference_time_seconds", "Seconds from a request's first step to its last token.",
                 inference_);
  page.histogram("vllm:request_prefill_time_seconds", "Seconds from a request's first step to its first token.",
                 prefill_);
  page.histogram("vllm:request_decode_time_seconds", "Seconds from a request's first token to its last.", decode_);
  page.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", prompt_tokens_);
  page.histogram("vllm:request_generation_tokens", "Tokens of an answer.", generation_tokens_);
  page.histogram("vllm:request_max_num_generation_tokens", "Tokens of an answer, the longest of a request's.",
                 generation_tokens_);
  page.histogram("vllm:request_params_n", "The parameter n of requests.", n_);
  page.histogram("vllm:request_params_max_tokens", "The parameter max_tokens of requests.", max_tokens_);
  write_layers(page, stats, facts);
  write_config(page, stats, facts);
  return page.take();
}

}  // namespace octavo
