#include "tool/bench_kernels.h"

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "terminal/console.h"
#include "tool/kernel_results.h"
#include "tool/name_pattern.h"

namespace octavo {
namespace {

Result<std::vector<KernelTrial>> trials_of(Backend& backend, AttentionTrials& attention, const KernelRow& row,
                                           std::uint64_t seed) {
  switch (row.phase) {
    case KernelPhase::decode:
    case KernelPhase::prefill:
      break;
    case KernelPhase::kv_write:
      return writer_trials(backend, row, seed);
    case KernelPhase::linear:
      return linear_trials(backend, row, seed);
  }
  std::vector<KernelTrial> trials;
  for (const TrialShape& shape : usual_shapes(row.phase)) {
    OCTAVO_TRY(KernelTrial trial, attention.run(row, shape));
    trials.push_back(std::move(trial));
  }
  return trials;
}

Result<std::vector<KernelRow>> chosen_rows(const KernelInventory& inventory, const std::string& pattern) {
  std::vector<KernelRow> rows;
  for (const KernelRow& row : inventory.rows)
    if (matches(pattern, row.name)) rows.push_back(row);
  if (rows.empty())
    return Error("--rows " + in_quotes(pattern) + " matches none of the " + std::to_string(inventory.rows.size()) +
                 " kernel rows: octavo advise --kernels lists them");
  return rows;
}

}  // namespace

Status bench_kernels(const BenchKernelsOptions& options, const BackendFactory& make_backends) {
  for (const std::string& file : {options.output_json, options.report_file}) OCTAVO_TRY(check_output_file(file, ""));
  OCTAVO_TRY(const auto backends, make_backends(1));
  const std::unique_ptr<Backend>& backend = backends.front();
  const KernelInventory inventory = backend->inventory();
  if (inventory.rows.empty()) return Error("bench kernels is refused here: " + inventory.note, ErrorKind::unsupported);
  KernelReport report;
  report.device = backend->device().describe();
  OCTAVO_TRY(report.rows, chosen_rows(inventory, options.rows));
  OCTAVO_TRY(report.ceilings, backend->ceilings());
  AttentionTrials attention(*backend, options.seed);
  for (const KernelRow& row : report.rows) {
    const auto trials = trials_of(*backend, attention, row, options.seed).in(row.name);
    if (!trials && trials.error().kind() == ErrorKind::unsupported) {
      log::info("not measured", {{"row", row.name}, {"because", trials.error().message()}});
      continue;
    }
    if (!trials) return trials.error();
    for (const KernelTrial& trial : *trials) {
      log::info("measured", {{"row", trial.row}, {"shape", trial.shape}, {"ms", trial.ms}, {"error", trial.error}});
      report.trials.push_back(trial);
    }
  }
  if (!options.output_json.empty()) OCTAVO_TRY(write_file(options.output_json, to_text(as_json(report)) + "\n"));
  if (!options.report_file.empty()) OCTAVO_TRY(write_file(options.report_file, kernel_page(report)));
  OCTAVO_TRY(write_stdout(as_table(report)));
  const std::vector<std::string> wrong = wrong_trials(report);
  if (wrong.empty()) return {};
  return Error("results that differ from the reference in double by more than rounding: " + join(wrong, ", "));
}

}  // namespace octavo
