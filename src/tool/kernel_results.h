// What `bench kernels` finds and what `advise --kernels` lists: rows of the wing's table with their registers and
// spills; times, rates and errors with the share of what the machine can do. As a table, as JSON, as a page.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "ops/kernel_row.h"
#include "tool/kernel_trial.h"

namespace octavo {

struct KernelReport {
  std::string device;
  Ceilings ceilings;
  std::vector<KernelRow> rows;
  std::vector<KernelTrial> trials;  // in the order of their rows
};

// A decode, a writer and a product of few rows are bound by memory, all others by products.
bool bound_by_memory(const KernelRow& row);
double gigabytes_a_second(const KernelTrial& trial);
double teraflops(const KernelTrial& trial);
double percent_of_ceiling(const KernelRow& row, const KernelTrial& trial, const Ceilings& ceilings);

std::string numbers_of(const KernelRow& row);  // "fp8_e4m3", "K int8, V fp8_e4m3", "q4_0", "any"

std::string as_table(const KernelInventory& inventory);
OrderedJson as_json(const KernelInventory& inventory);

// Trials that are wrong: poison left in results, or an error that rounding does not explain.
std::vector<std::string> wrong_trials(const KernelReport& report);
std::string as_table(const KernelReport& report);
OrderedJson as_json(const KernelReport& report);
std::string kernel_page(const KernelReport& report);

}  // namespace octavo
