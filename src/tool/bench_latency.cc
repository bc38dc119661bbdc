#include "tool/bench_latency.h"

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "engine/local_engine.h"
#include "terminal/console.h"
#include "terminal/statistics.h"
#include "tool/latency_page.h"
#include "tool/latency_results.h"

namespace octavo {
namespace {

constexpr int kUsualInputs[] = {256, 1024, 4096, 16384, 32768, 65536, 125000};

std::vector<int> usual_inputs(const ModelSpec& spec, int output_len) {
  std::vector<int> inputs;
  for (const int input : kUsualInputs)
    if (input + output_len <= spec.max_positions) inputs.push_back(input);
  if (inputs.empty()) inputs.push_back(kUsualInputs[0]);  // refused by name
  return inputs;
}

Result<LatencyResult> measure(Engine& engine, const BenchLatencyOptions& options, int input_len) {
  std::vector<double> ttft;
  std::vector<double> itl;
  for (int i = 0; i < options.num_iters; ++i) {
    const auto seed = options.engine.seed + static_cast<std::uint64_t>(i);
    OCTAVO_TRY(const RequestTimes times,
               timed_request(engine, random_ids(seed, input_len, engine.spec().vocab), options.output_len));
    ttft.push_back(times.ttft_ms);
    itl.push_back(times.mean_itl_ms());
  }
  LatencyResult result;
  result.input_len = input_len;
  result.output_len = options.output_len;
  result.ttft_ms = median(ttft);
  result.prefill_tok_s = 1000 * input_len / result.ttft_ms;
  result.itl_ms = median(itl);
  return result;
}

// The first steps of an engine touch memory that no step has touched yet: those of the shortest input are thrown away.
Status warm_up(Engine& engine, const BenchLatencyOptions& options, int shortest) {
  for (int i = 0; i < options.num_warmup; ++i)
    OCTAVO_TRY(timed_request(engine, random_ids(options.engine.seed, shortest, engine.spec().vocab),
                             std::min(options.output_len, 8)));
  return {};
}

}  // namespace

Status bench_latency(const BenchLatencyOptions& options, const BackendFactory& make_backend) {
  for (const std::string& file : {options.output_json, options.report_file})
    OCTAVO_TRY(check_output_file(file, options.engine.model_path));
  OCTAVO_TRY(const auto model, load_model(options.engine, make_backend));
  const ModelSpec& spec = model->spec();
  const std::vector<int> inputs =
      options.input_lens.empty() ? usual_inputs(spec, options.output_len) : options.input_lens;
  const auto [shortest, longest] = std::minmax_element(inputs.begin(), inputs.end());
  OCTAVO_TRY(EngineConfig config, bench_config(options.engine, spec, *longest + options.output_len));
  LatencyReport report;
  report.model = config.model_path;
  report.device = model->describe_device();
  for (const CacheVariant& variant :
       cache_variants(options.caches, options.engine.kv_cache.transform, options.engine.skip_layers)) {
    config.kv_cache = variant.choice;
    config.kv_cache.rope = options.engine.kv_cache.rope;
    config.skip_layers = variant.skip_layers;
    OCTAVO_TRY(const auto engine, Engine::create(config, model));
    OCTAVO_TRY(warm_up(*engine, options, *shortest));
    for (const int input_len : inputs) {
      OCTAVO_TRY(LatencyResult result, measure(*engine, options, input_len));
      result.kv_cache_dtype = variant.name;
      log::info("measured", {{"kv_cache_dtype", variant.name},
                             {"input_len", input_len},
                             {"ttft_ms", result.ttft_ms},
                             {"itl_ms", result.itl_ms}});
      report.results.push_back(std::move(result));
    }
  }
  add_fits(report);
  if (!options.output_json.empty()) OCTAVO_TRY(write_file(options.output_json, to_text(as_json(report)) + "\n"));
  if (!options.report_file.empty()) OCTAVO_TRY(write_file(options.report_file, latency_page(report)));
  return write_stdout(as_tables(report));
}

}  // namespace octavo
