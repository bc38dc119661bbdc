#include "tool/eval_kld.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "engine/local_engine.h"
#include "terminal/console.h"
#include "terminal/table.h"
#include "tool/position_buckets.h"
#include "tool/text_windows.h"

namespace octavo {
namespace {

// Both engines walk a window in the same blocks of rows, one after the other.
class Comparison {
 public:
  Comparison(Engine& reference, Engine& other, const TextWindows& text)
      : reference_(reference), other_(other), text_(text), pool_(available_cpus()) {}

  Status add(const std::vector<std::int32_t>& ids) {
    const int size = static_cast<int>(ids.size());
    for (int first = 0; first < size; first += rows_per_block(other_)) {
      const int end = std::min(first + rows_per_block(other_), size);
      const std::vector<std::int32_t> begun(ids.begin(), ids.begin() + end);
      OCTAVO_TRY(const auto expected, reference_.logits(begun, text_.decode_from_in(end), first));
      OCTAVO_TRY(const auto got, other_.logits(begun, text_.decode_from_in(end), first));
      OCTAVO_TRY(add_rows(expected, got, first, end - first));
    }
    return {};
  }
  std::vector<DivergenceSummary> summaries() const { return buckets_.summaries(); }

 private:
  Status add_rows(std::span<const float> expected, std::span<const float> got, int first, int count) {
    const auto vocab = static_cast<std::size_t>(other_.spec().vocab);
    std::vector<Divergence> rows(static_cast<std::size_t>(count));
    pool_.run(count, [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i);
      rows[row] = divergence(expected.subspan(row * vocab, vocab), got.subspan(row * vocab, vocab));
    });
    for (int i = 0; i < count; ++i) {
      const Divergence& row = rows[static_cast<std::size_t>(i)];
      if (!std::isfinite(row.kl))
        return Error("the logits at position " + std::to_string(first + i) + " of a window are not finite");
      buckets_.add(first + i, row);
    }
    return {};
  }

  Engine& reference_;
  Engine& other_;
  const TextWindows& text_;
  ThreadPool pool_;
  PositionBuckets buckets_;
};

OrderedJson as_json(const DivergenceSummary& summary) {
  return {
      {"first", summary.first}, {"last", summary.end - 1}, {"positions", summary.positions},    {"mean", summary.mean},
      {"p99", summary.p99},     {"max", summary.max},      {"same_argmax", summary.same_argmax}};
}

OrderedJson as_json(const EvalKldOptions& options, const TextWindows& text,
                    const std::vector<DivergenceSummary>& summaries) {
  OrderedJson report = {{"text", options.text_file},
                        {"kv_cache_dtype", options.kv_cache_name},
                        {"reference_kv_cache_dtype", options.reference_name},
                        {"tokens", text.num_tokens},
                        {"context", text.context}};
  report["buckets"] = OrderedJson::array();
  for (const DivergenceSummary& summary : summaries) {
    if (summary.name == "all")
      report["all"] = as_json(summary);
    else
      report["buckets"].push_back(as_json(summary));
  }
  report["all"].erase("first");
  report["all"].erase("last");
  return report;
}

std::string as_table(const EvalKldOptions& options, const std::vector<DivergenceSummary>& summaries) {
  Table table({"positions", "count", "mean", "p99", "max", "same argmax"});
  for (const DivergenceSummary& s : summaries)
    table.add({s.name, std::to_string(s.positions), significant(s.mean, 4), significant(s.p99, 4),
               significant(s.max, 4), fixed(100 * s.same_argmax, 2) + " %"});
  return "KL divergence in nats of the next token: " + options.kv_cache_name + " from " + options.reference_name +
         "\n" + table.text();
}

}  // namespace

Status eval_kld(const EvalKldOptions& options, const BackendFactory& make_backend) {
  OCTAVO_TRY(check_output_file(options.output_json, options.engine.model_path));
  EngineConfig config = options.engine;
  OCTAVO_TRY(const TextTokens tokens, read_text_tokens(options.text_file, config.model_path));
  OCTAVO_TRY(const auto model, load_model(config, make_backend));
  OCTAVO_TRY(const TextWindows text, cut_windows(tokens, model->spec(), options.context, options.decode_from));
  if (!config.max_model_len) config.max_model_len = text.context;
  config.fill_memory = false;  // two caches share it
  OCTAVO_TRY(const auto other, Engine::create(config, model));
  config.kv_cache = options.reference;
  config.skip_layers.clear();
  OCTAVO_TRY(const auto reference, Engine::create(config, model));

  Comparison comparison(*reference, *other, text);
  for (const auto& window : text.windows) OCTAVO_TRY(comparison.add(window));
  const auto summaries = comparison.summaries();
  if (!options.output_json.empty())
    OCTAVO_TRY(write_file(options.output_json, to_text(as_json(options, text, summaries)) + "\n"));
  return write_stdout(as_table(options, summaries));
}

}  // namespace octavo
