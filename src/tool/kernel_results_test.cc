#include "tool/kernel_results.h"

#include <gtest/gtest.h>

#include <cmath>

namespace octavo {
namespace {

KernelRow row_named(const std::string& name, KernelPhase phase) {
  KernelRow row;
  row.name = name;
  row.phase = phase;
  row.head_dim = 128;
  row.key = KvElem::int8;
  row.value = KvElem::e4m3;
  row.architecture = "sm";
  row.threads = 128;
  return row;
}

KernelReport report() {
  KernelReport report;
  report.device = "a <card>";
  report.ceilings = {.read_gb_s = 4000, .bf16_tflop_s = 800, .eight_bit_tflop_s = 1600};
  report.rows = {row_named("decode", KernelPhase::decode), row_named("prefill", KernelPhase::prefill),
                 row_named("prefill8", KernelPhase::prefill)};
  report.rows[0].registers = 168;
  report.rows[0].spill_bytes = 8;
  report.rows[2].products_in_8_bits = true;
  report.trials = {{.row = "decode", .shape = "8 x 8k", .ms = 0.5, .bytes = 1e9, .operations = 1e9, .error = 0.001},
                   {.row = "prefill", .shape = "8k", .ms = 2, .bytes = 1e6, .operations = 8e11, .error = 0.002},
                   {.row = "prefill8", .shape = "8k", .ms = 2, .bytes = 1e6, .operations = 8e11, .error = 0.002}};
  return report;
}

TEST(KernelResults, SharesAreOfTheCeilingThatBindsTheRow) {
  const OrderedJson results = as_json(report())["results"];
  EXPECT_DOUBLE_EQ(results[0]["gb_s"].get<double>(), 2000);
  EXPECT_DOUBLE_EQ(results[0]["percent_of_ceiling"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(results[1]["tflop_s"].get<double>(), 400);
  EXPECT_DOUBLE_EQ(results[1]["percent_of_ceiling"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(results[2]["percent_of_ceiling"].get<double>(), 25);
}

TEST(KernelResults, FiguresThatOnlyADeviceKnowsAreLeftOpen) {
  const OrderedJson results = as_json(report())["results"];
  EXPECT_EQ(results[0]["registers"].get<int>(), 168);
  EXPECT_EQ(results[0]["spill_bytes"].get<int>(), 8);
  EXPECT_TRUE(results[1]["registers"].is_null());
  const std::string table = as_table(KernelInventory{.rows = report().rows, .note = "no device"});
  EXPECT_NE(table.find("K int8, V fp8_e4m3"), std::string::npos);
  EXPECT_NE(table.find("168"), std::string::npos);
  EXPECT_NE(table.find("(no device)\n"), std::string::npos);
}

TEST(KernelResults, AnEmptyInventoryIsItsSentence) {
  EXPECT_EQ(as_table(KernelInventory{.rows = {}, .note = "there is none"}), "there is none\n");
}

TEST(KernelResults, PoisonAndLargeErrorsAreWrong) {
  KernelReport bad = report();
  EXPECT_TRUE(wrong_trials(bad).empty());
  bad.trials[0].error = std::nan("");
  bad.trials[2].error = 0.05;
  EXPECT_EQ(wrong_trials(bad), (std::vector<std::string>{"decode at 8 x 8k", "prefill8 at 8k"}));
  EXPECT_TRUE(as_json(bad)["results"][0]["error"].is_null());
  KernelReport rounded = report();
  rounded.trials[2].error = 0.035;  // queries and weights in 8 bits
  EXPECT_TRUE(wrong_trials(rounded).empty());
  rounded.trials[0].error = 0.035;
  EXPECT_EQ(wrong_trials(rounded), (std::vector<std::string>{"decode at 8 x 8k"}));
}

TEST(KernelResults, ThePageEscapesAndHasABarForEachTrial) {
  const std::string page = kernel_page(report());
  EXPECT_NE(page.find("a &lt;card&gt;"), std::string::npos);
  EXPECT_EQ(page.find("<card>"), std::string::npos);
  std::size_t bars = 0;
  for (std::size_t at = page.find("<svg"); at != std::string::npos; at = page.find("<svg", at + 1)) ++bars;
  EXPECT_EQ(bars, 3u);
}

}  // namespace
}  // namespace octavo
