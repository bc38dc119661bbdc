#include "tool/bench_verbs.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "engine/local_engine.h"
#include "terminal/console.h"
#include "terminal/table.h"
#include "tool/timed_backend.h"

namespace octavo {
namespace {

constexpr double kMega = 1e6;

double gigabytes_a_second(std::int64_t bytes, double ms) {
  return ms > 0 ? static_cast<double>(bytes) / (ms * kMega) : 0.0;
}

std::string as_table(const std::string& kind, const StepSummary& step) {
  Table table({kind + " step", "calls", "ms", "share", "MB", "GB/s"});
  const auto share = [&](double ms) { return step.ms > 0 ? fixed(100 * ms / step.ms, 1) + " %" : "-"; };
  for (const VerbSummary& verb : step.verbs)
    table.add({verb.verb, std::to_string(verb.calls), fixed(verb.ms, 4), share(verb.ms),
               fixed(static_cast<double>(verb.bytes) / kMega, 3), fixed(gigabytes_a_second(verb.bytes, verb.ms), 2)});
  table.add({"gaps", "-", fixed(step.gaps_ms, 4), share(step.gaps_ms), "-", "-"});
  table.add({"whole step", "-", fixed(step.ms, 4), share(step.ms), "-", "-"});
  return table.text() + "(" + std::to_string(step.num_tokens) + " tokens, context " + std::to_string(step.max_context) +
         "; medians of " + std::to_string(step.num_steps) + " steps)\n";
}

OrderedJson as_json(const StepSummary& step) {
  OrderedJson verbs = OrderedJson::array();
  for (const VerbSummary& verb : step.verbs)
    verbs.push_back({{"verb", verb.verb}, {"calls", verb.calls}, {"ms", verb.ms}, {"bytes", verb.bytes}});
  return {{"steps", step.num_steps}, {"tokens", step.num_tokens}, {"context", step.max_context},
          {"ms", step.ms},           {"gaps_ms", step.gaps_ms},   {"verbs", verbs}};
}

// Of each prompt its last chunk, the one that looks back on all of it; and every decode step.
void sort_steps(const std::vector<StepCalls>& steps, std::vector<StepCalls>& prefills,
                std::vector<StepCalls>& decodes) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].decode() && i > 0)
      decodes.push_back(steps[i]);
    else if (i + 1 == steps.size() || steps[i + 1].decode())
      prefills.push_back(steps[i]);
  }
}

}  // namespace

Status bench_verbs(const BenchVerbsOptions& options, const BackendFactory& make_backends) {
  OCTAVO_TRY(check_output_file(options.output_json, options.engine.model_path));
  VerbTimeline timeline;  // outlives the engine
  // The first rank's verbs tell of all: they wait for one another.
  const BackendFactory timed = [&](int num_ranks) -> Result<std::vector<std::unique_ptr<Backend>>> {
    OCTAVO_TRY(auto backends, make_backends(num_ranks));
    backends.front() = std::make_unique<TimedBackend>(std::move(backends.front()), timeline);
    return backends;
  };
  OCTAVO_TRY(const auto model, load_model(options.engine, timed));
  OCTAVO_TRY(const EngineConfig config,
             bench_config(options.engine, model->spec(), options.input_len + options.output_len));
  std::vector<StepCalls> prefills;
  std::vector<StepCalls> decodes;
  for (int i = -1; i < options.num_iters; ++i) {  // -1: warm-up
    // The engine's thread writes the timeline: it is read when that has ended.
    timeline.clear();
    {
      OCTAVO_TRY(const auto engine, Engine::create(config, model));
      const auto seed = options.engine.seed + static_cast<std::uint64_t>(i + 1);
      OCTAVO_TRY(timed_request(*engine, random_ids(seed, options.input_len, engine->spec().vocab), options.output_len));
    }
    if (i >= 0) sort_steps(timeline.steps(), prefills, decodes);
  }
  const StepSummary prefill = summarise(prefills);
  const StepSummary decode = summarise(decodes);
  if (!options.output_json.empty()) {
    const OrderedJson report = {{"kv_cache_dtype", options.kv_cache_name},
                                {"input_len", options.input_len},
                                {"output_len", options.output_len},
                                {"prefill", as_json(prefill)},
                                {"decode", as_json(decode)}};
    OCTAVO_TRY(write_file(options.output_json, to_text(report) + "\n"));
  }
  return write_stdout(as_table("prefill", prefill) + "\n" + as_table("decode", decode));
}

}  // namespace octavo
