#include "tool/eval_nll.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "engine/local_engine.h"
#include "terminal/console.h"
#include "terminal/table.h"
#include "tool/likelihood.h"
#include "tool/text_windows.h"

namespace octavo {
namespace {

// Adds the likelihoods of a window's tokens, a block of rows at a time.
Status add_window(Engine& engine, const TextWindows& text, const std::vector<std::int32_t>& ids, ThreadPool& pool,
                  std::vector<double>& all) {
  const auto vocab = static_cast<std::size_t>(engine.spec().vocab);
  const int last = static_cast<int>(ids.size()) - 1;  // nothing follows it
  for (int first = 0; first < last; first += rows_per_block(engine)) {
    const int end = std::min(first + rows_per_block(engine), last);
    OCTAVO_TRY(const auto logits, engine.logits({ids.begin(), ids.begin() + end}, text.decode_from_in(end), first));
    std::vector<double> rows(static_cast<std::size_t>(end - first));
    pool.run(std::ssize(rows), [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i);
      rows[row] = negative_log_likelihood(std::span(logits).subspan(row * vocab, vocab),
                                          ids[static_cast<std::size_t>(first) + row + 1]);
    });
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!std::isfinite(rows[i]))
        return Error("the logits at position " + std::to_string(static_cast<std::size_t>(first) + i) +
                     " of a window are not finite");
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return {};
}

}  // namespace

Status eval_nll(const EvalNllOptions& options, const BackendFactory& make_backend) {
  OCTAVO_TRY(check_output_file(options.output_json, options.engine.model_path));
  EngineConfig config = options.engine;
  OCTAVO_TRY(const TextTokens tokens, read_text_tokens(options.text_file, config.model_path));
  OCTAVO_TRY(const auto model, load_model(config, make_backend));
  OCTAVO_TRY(const TextWindows text, cut_windows(tokens, model->spec(), options.context, options.decode_from));
  if (!config.max_model_len) config.max_model_len = text.context;
  OCTAVO_TRY(const auto engine, Engine::create(config, model));
  ThreadPool pool(available_cpus());
  std::vector<double> all;
  for (const auto& window : text.windows) OCTAVO_TRY(add_window(*engine, text, window, pool, all));

  double sum = 0;
  for (const double nll : all) sum += nll;
  const double mean = sum / static_cast<double>(all.size());
  if (!options.output_json.empty()) {
    const OrderedJson report = {{"text", options.text_file},      {"tokens", text.num_tokens},
                                {"predicted_tokens", all.size()}, {"context", text.context},
                                {"windows", text.windows.size()}, {"mean_nll", mean},
                                {"perplexity", std::exp(mean)}};
    OCTAVO_TRY(write_file(options.output_json, to_text(report) + "\n"));
  }
  return write_stdout("mean NLL " + fixed(mean, 6) + " nats per token, perplexity " + fixed(std::exp(mean), 4) + ", " +
                      std::to_string(all.size()) + " tokens predicted in windows of " + std::to_string(text.context) +
                      "\n");
}

}  // namespace octavo
