#include "tool/bench_verbs.h"

#include <algorithm>
#include <optional>

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
double gigaflops(std::int64_t operations, double ms) { return gigabytes_a_second(operations, ms); }

// What a step runs against: reading what it reads as fast as that goes when it is read step after step, and products at
// the wing's rate.
struct StepCeilings {
  double read_gb_s = 0;  // 0: not measured
  double gigaflops = 0;
};

StepCeilings ceilings_of(const std::optional<Ceilings>& machine, const StepSummary& step) {
  if (!machine) return {};
  const double teraflops = machine->bf16_tflop_s > 0 ? machine->bf16_tflop_s : machine->f32_tflop_s;
  return {machine->read_rate(step.bytes), 1000 * teraflops};
}

std::string percent_text(double value, double whole) { return whole > 0 ? fixed(100 * value / whole, 1) + " %" : "-"; }

std::string said_of(const StepCeilings& ceilings) {
  if (ceilings.read_gb_s == 0) return "no ceilings are measured on this device";
  return "ceilings in this call: read " + fixed(ceilings.read_gb_s, 1) + " GB/s of as many bytes as the step's, " +
         (ceilings.gigaflops > 0 ? fixed(ceilings.gigaflops, 0) + " GFLOP/s" : std::string("arithmetic not measured"));
}

std::string as_table(const std::string& name, const StepSummary& step, const StepCeilings& ceilings) {
  Table table({name + " step", "calls", "ms", "share", "MB", "GB/s", "of read", "GFLOP/s", "of arithmetic"});
  for (const VerbSummary& verb : step.verbs) {
    const double read = gigabytes_a_second(verb.bytes, verb.ms);
    const double products = gigaflops(verb.operations, verb.ms);
    const bool computes = verb.operations > 0;
    table.add({verb.kind.empty() ? verb.verb : verb.verb + ", " + verb.kind, std::to_string(verb.calls),
               fixed(verb.ms, 4), percent_text(verb.ms, step.ms), fixed(static_cast<double>(verb.bytes) / kMega, 3),
               fixed(read, 2), percent_text(read, ceilings.read_gb_s), computes ? fixed(products, 1) : "-",
               computes ? percent_text(products, ceilings.gigaflops) : "-"});
  }
  const double read = gigabytes_a_second(step.bytes, step.ms);
  table.add({"gaps", "-", fixed(step.gaps_ms, 4), percent_text(step.gaps_ms, step.ms), "-", "-", "-", "-", "-"});
  table.add({"whole step", "-", fixed(step.ms, 4), "-", fixed(static_cast<double>(step.bytes) / kMega, 3),
             fixed(read, 2), percent_text(read, ceilings.read_gb_s), "-", "-"});
  return table.text() + "(" + std::to_string(step.num_tokens) + " tokens, context " + std::to_string(step.max_context) +
         "; medians of " + std::to_string(step.num_steps) + " steps; " + said_of(ceilings) + ")\n";
}

OrderedJson as_json(const StepSummary& step, const StepCeilings& ceilings) {
  OrderedJson verbs = OrderedJson::array();
  const auto share = [](double value, double whole) {
    return whole > 0 ? OrderedJson(100 * value / whole) : OrderedJson(nullptr);
  };
  for (const VerbSummary& verb : step.verbs)
    verbs.push_back({{"verb", verb.verb},
                     {"kind", verb.kind},
                     {"calls", verb.calls},
                     {"ms", verb.ms},
                     {"bytes", verb.bytes},
                     {"operations", verb.operations},
                     {"percent_of_read", share(gigabytes_a_second(verb.bytes, verb.ms), ceilings.read_gb_s)},
                     {"percent_of_arithmetic", share(gigaflops(verb.operations, verb.ms), ceilings.gigaflops)}});
  return {{"steps", step.num_steps},
          {"tokens", step.num_tokens},
          {"context", step.max_context},
          {"ms", step.ms},
          {"gaps_ms", step.gaps_ms},
          {"bytes", step.bytes},
          {"ceilings", {{"read_gb_s", ceilings.read_gb_s}, {"gflop_s", ceilings.gigaflops}}},
          {"verbs", verbs}};
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

// None on a device that measures none.
Result<std::optional<Ceilings>> measured_ceilings(Backend& backend) {
  auto ceilings = backend.ceilings();
  if (ceilings) return std::optional<Ceilings>(*ceilings);
  if (ceilings.error().kind() == ErrorKind::unsupported) return std::optional<Ceilings>();
  return ceilings.error();
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
  OCTAVO_TRY(const std::optional<Ceilings> machine, measured_ceilings(*model->ranks.front().backend));
  const StepSummary prefill = summarise(prefills);
  const StepSummary decode = summarise(decodes);
  const StepCeilings prefill_ceilings = ceilings_of(machine, prefill);
  const StepCeilings decode_ceilings = ceilings_of(machine, decode);
  if (!options.output_json.empty()) {
    const OrderedJson report = {{"kv_cache_dtype", options.kv_cache_name},
                                {"input_len", options.input_len},
                                {"output_len", options.output_len},
                                {"prefill", as_json(prefill, prefill_ceilings)},
                                {"decode", as_json(decode, decode_ceilings)}};
    OCTAVO_TRY(write_file(options.output_json, to_text(report) + "\n"));
  }
  return write_stdout(as_table("prefill", prefill, prefill_ceilings) + "\n" +
                      as_table("decode", decode, decode_ceilings));
}

}  // namespace octavo
