#include "tool/kernel_results.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "terminal/table.h"
#include "tool/svg_plot.h"

namespace octavo {
namespace {

std::string or_dash(const std::optional<std::int32_t>& figure) { return figure ? std::to_string(*figure) : "-"; }
std::string or_dash(std::int32_t figure) { return figure > 0 ? std::to_string(figure) : "-"; }

OrderedJson or_null(const std::optional<std::int32_t>& figure) {
  return figure ? OrderedJson(*figure) : OrderedJson(nullptr);
}

const KernelRow& row_of(const KernelReport& report, const KernelTrial& trial) {
  const auto same = [&](const KernelRow& row) { return row.name == trial.row; };
  const auto found = std::find_if(report.rows.begin(), report.rows.end(), same);
  check(found != report.rows.end(), "a trial belongs to a row");
  return *found;
}

OrderedJson as_json(const KernelRow& row) {
  const auto elem = [](const std::optional<KvElem>& e) { return e ? OrderedJson(name_of(*e)) : OrderedJson(nullptr); };
  return {{"row", row.name},
          {"phase", name_of(row.phase)},
          {"head_dim", row.head_dim},
          {"key", elem(row.key)},
          {"value", elem(row.value)},
          {"weight", row.weight ? OrderedJson(dtype_info(*row.weight).name) : OrderedJson(nullptr)},
          {"architecture", row.architecture},
          {"threads", row.threads},
          {"shared_bytes", row.shared_bytes},
          {"registers", or_null(row.registers)},
          {"spill_bytes", or_null(row.spill_bytes)}};
}

std::string rate_of(const KernelRow& row, const KernelTrial& trial) {
  return bound_by_memory(row) ? fixed(gigabytes_a_second(trial), 1) + " GB/s" : fixed(teraflops(trial), 1) + " TFLOP/s";
}

std::vector<std::string> cells(const KernelReport& report, const KernelTrial& trial) {
  const KernelRow& row = row_of(report, trial);
  return {trial.row,
          trial.shape,
          fixed(1000 * trial.ms, 1),
          rate_of(row, trial),
          fixed(percent_of_ceiling(row, trial, report.ceilings), 1) + " %",
          or_dash(row.registers),
          or_dash(row.spill_bytes),
          significant(trial.error, 2)};
}

const std::vector<std::string> kHeader = {"row", "shape", "µs", "rate", "of ceiling", "registers", "spills", "error"};

std::string ceilings_sentence(const Ceilings& c) {
  return "ceilings in this call: read " + fixed(c.read_gb_s, 0) + " GB/s, bf16 product " + fixed(c.bf16_tflop_s, 0) +
         " TFLOP/s, 8-bit product " +
         (c.eight_bit_tflop_s > 0 ? fixed(c.eight_bit_tflop_s, 0) + " TFLOP/s" : std::string("none"));
}

std::string html_row(const char* cell, const std::vector<std::string>& values) {
  std::string text = "<tr>";
  for (const std::string& value : values)
    text += std::string("<") + cell + ">" + escaped_html(value) + "</" + cell + ">";
  return text + "</tr>\n";
}

// A row's share of its ceiling as a bar, on a scale that ends at 100 %.
std::string bar(double percent) {
  return "<td><svg viewBox=\"0 0 100 8\" width=\"160\" height=\"12\"><rect width=\"" +
         fixed(std::clamp(percent, 0.0, 100.0), 1) + "\" height=\"8\" fill=\"#36c\"/></svg></td>";
}

}  // namespace

bool bound_by_memory(const KernelRow& row) {
  return row.phase == KernelPhase::decode || row.phase == KernelPhase::kv_write || row.max_tokens > 0;
}

double gigabytes_a_second(const KernelTrial& trial) { return trial.ms > 0 ? 1e-6 * trial.bytes / trial.ms : 0.0; }
double teraflops(const KernelTrial& trial) { return trial.ms > 0 ? 1e-9 * trial.operations / trial.ms : 0.0; }

double percent_of_ceiling(const KernelRow& row, const KernelTrial& trial, const Ceilings& ceilings) {
  const bool memory = bound_by_memory(row);
  const double products = row.products_in_8_bits ? ceilings.eight_bit_tflop_s : ceilings.bf16_tflop_s;
  const double ceiling = memory ? ceilings.read_gb_s : products;
  return ceiling > 0 ? 100 * (memory ? gigabytes_a_second(trial) : teraflops(trial)) / ceiling : 0.0;
}

std::string numbers_of(const KernelRow& row) {
  if (row.weight) return std::string(dtype_info(*row.weight).name);
  if (!row.key || !row.value) return "any";
  const std::string key(name_of(*row.key)), value(name_of(*row.value));
  return key == value ? key : "K " + key + ", V " + value;
}

std::string as_table(const KernelInventory& inventory) {
  if (inventory.rows.empty()) return inventory.note + "\n";
  Table table({"row", "phase", "head", "numbers", "architecture", "threads", "registers", "shared bytes", "spills"});
  for (const KernelRow& row : inventory.rows)
    table.add({row.name, std::string(name_of(row.phase)), or_dash(row.head_dim), numbers_of(row), row.architecture,
               or_dash(row.threads), or_dash(row.registers), or_dash(row.shared_bytes), or_dash(row.spill_bytes)});
  return table.text() + (inventory.note.empty() ? "" : "(" + inventory.note + ")\n");
}

OrderedJson as_json(const KernelInventory& inventory) {
  OrderedJson rows = OrderedJson::array();
  for (const KernelRow& row : inventory.rows) rows.push_back(as_json(row));
  return {{"kernels", rows}, {"note", inventory.note}};
}

std::vector<std::string> wrong_trials(const KernelReport& report) {
  std::vector<std::string> wrong;
  for (const KernelTrial& trial : report.trials)
    if (!(trial.error <= largest_trial_error(row_of(report, trial)))) wrong.push_back(trial.row + " at " + trial.shape);
  return wrong;
}

std::string as_table(const KernelReport& report) {
  Table table(kHeader);
  for (const KernelTrial& trial : report.trials) table.add(cells(report, trial));
  return report.device + "; " + ceilings_sentence(report.ceilings) + "\n" + table.text();
}

OrderedJson as_json(const KernelReport& report) {
  OrderedJson results = OrderedJson::array();
  for (const KernelTrial& trial : report.trials) {
    const KernelRow& row = row_of(report, trial);
    OrderedJson result = as_json(row);
    result["shape"] = trial.shape;
    result["ms"] = trial.ms;
    result["gb_s"] = gigabytes_a_second(trial);
    result["tflop_s"] = teraflops(trial);
    result["percent_of_ceiling"] = percent_of_ceiling(row, trial, report.ceilings);
    result["error"] = std::isfinite(trial.error) ? OrderedJson(trial.error) : OrderedJson(nullptr);
    results.push_back(std::move(result));
  }
  return {{"device", report.device},
          {"ceilings",
           {{"read_gb_s", report.ceilings.read_gb_s},
            {"bf16_tflop_s", report.ceilings.bf16_tflop_s},
            {"eight_bit_tflop_s", report.ceilings.eight_bit_tflop_s}}},
          {"results", results}};
}

std::string kernel_page(const KernelReport& report) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>octavo bench kernels</title>\n"
      "<style>\nbody { font: 15px sans-serif; max-width: 1100px; margin: 2em auto; color: #222; }\n"
      "table { border-collapse: collapse; }\nth, td { text-align: right; padding: 0.2em 0.8em; border-bottom: 1px "
      "solid "
      "#ddd; }\nth:first-child, td:first-child { text-align: left; }\n</style>\n</head>\n<body>\n<h1>Kernels</h1>\n";
  text += "<p>" + escaped_html(report.device) + "<br>" + escaped_html(ceilings_sentence(report.ceilings)) + "</p>\n";
  std::vector<std::string> header = kHeader;
  header.emplace_back("share of the ceiling");
  text += "<table>\n" + html_row("th", header);
  for (const KernelTrial& trial : report.trials) {
    std::string row = html_row("td", cells(report, trial));
    const double percent = percent_of_ceiling(row_of(report, trial), trial, report.ceilings);
    row.insert(row.rfind("</tr>"), bar(percent));
    text += row;
  }
  return text + "</table>\n</body>\n</html>\n";
}

}  // namespace octavo
