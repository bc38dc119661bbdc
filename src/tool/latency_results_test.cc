#include "tool/latency_results.h"

#include <gtest/gtest.h>

#include "tool/latency_page.h"
#include "tool/svg_plot.h"

namespace octavo {
namespace {

// auto: 5 + 0.002 c; fp8: 6 + 0.001 c. They meet at 1,000.
LatencyReport two_caches() {
  LatencyReport report;
  report.model = "a <model> & \"more\"";
  for (const int c : {256, 1024, 4096}) report.results.push_back({"auto", c, 8, 1.0 * c, 1000, 5 + 0.002 * c});
  for (const int c : {256, 1024, 4096}) report.results.push_back({"fp8", c, 8, 1.0 * c, 1000, 6 + 0.001 * c});
  add_fits(report);
  return report;
}

TEST(LatencyResults, JsonHoldsWhatWasMeasuredAndTheLines) {
  const OrderedJson json = as_json(two_caches());
  ASSERT_EQ(json.at("results").size(), 6u);
  EXPECT_EQ(json.at("results")[4].at("kv_cache_dtype"), "fp8");
  EXPECT_EQ(json.at("results")[4].at("input_len"), 1024);
  ASSERT_EQ(json.at("fits").size(), 2u);
  EXPECT_NEAR(json.at("fits")[0].at("intercept_ms").get<double>(), 5, 1e-9);
  EXPECT_NEAR(json.at("fits")[1].at("slope_ms_per_token").get<double>(), 0.001, 1e-12);
  EXPECT_NEAR(json.at("break_even_tokens").get<double>(), 1000, 1e-6);
}

TEST(LatencyResults, OneLengthHasNoLine) {
  LatencyReport report;
  report.results = {{"auto", 256, 8, 1, 1, 1}, {"fp8", 256, 8, 1, 1, 1}};
  add_fits(report);
  EXPECT_TRUE(report.fits.empty());
  EXPECT_TRUE(as_json(report).at("break_even_tokens").is_null());
}

TEST(LatencyResults, TheSentencesAgreeWithTheLines) {
  LatencyReport report = two_caches();
  report.fits.push_back({"int8", {7, 0.003}});
  EXPECT_EQ(break_even_sentences(report),
            (std::vector<std::string>{"fp8 costs no more than auto from 1000 tokens on",
                                      "int8 has no context from which on it costs less than auto"}));
}

TEST(LatencyPage, EscapesWhatPeopleNamed) {
  const std::string page = latency_page(two_caches());
  EXPECT_NE(page.find("a &lt;model&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_EQ(page.find("<model>"), std::string::npos);
  for (const char* outside : {"http", "src=", "href", "<script", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(SvgPlot, TicksAreRoundAndCoverEverything) {
  EXPECT_EQ(axis_ticks(5), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(axis_ticks(125000), (std::vector<double>{0, 50000, 100000, 150000}));
  EXPECT_EQ(axis_ticks(0), axis_ticks(1));
  EXPECT_EQ(axis_ticks(0.0 / 0.0), axis_ticks(1));
  for (const double most : {1e-6, 0.3, 7.0, 99.0, 1e9}) {
    EXPECT_GE(axis_ticks(most).back(), most * (1 - 1e-9));
    EXPECT_LE(axis_ticks(most).size(), 7u);
  }
}

TEST(SvgPlot, NumbersThatAreNoneAreLeftOut) {
  const SvgPlot plot{.title = "t", .x_label = "x", .y_label = "y", .series = {{"s", {{1, 0.0 / 0.0}, {2, 3}}, {}}}};
  EXPECT_EQ(plot.svg().find("nan"), std::string::npos);
}

}  // namespace
}  // namespace octavo
