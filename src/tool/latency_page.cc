#include "tool/latency_page.h"

#include <algorithm>

#include "terminal/table.h"
#include "tool/svg_plot.h"

namespace octavo {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>octavo bench</title>\n<style>\n"
    "body { font: 15px sans-serif; max-width: 760px; margin: 2em auto; color: #222; }\n"
    "svg { width: 100%; font: 12px sans-serif; margin-bottom: 1em; }\n"
    "table { border-collapse: collapse; margin-bottom: 1.5em; }\n"
    "th, td { text-align: right; padding: 0.2em 0.8em; border-bottom: 1px solid #ddd; }\n"
    "th:first-child, td:first-child { text-align: left; }\n</style>\n</head>\n<body>\n";

std::string row(const char* cell, const std::vector<std::string>& values) {
  std::string text = "<tr>";
  for (const std::string& value : values)
    text += std::string("<") + cell + ">" + escaped_html(value) + "</" + cell + ">";
  return text + "</tr>\n";
}

template <class Value>
SvgPlot plot(const LatencyReport& report, Value&& value) {
  SvgPlot result;
  result.x_label = "context, tokens";
  for (const LatencyResult& r : report.results) {
    if (result.series.empty() || result.series.back().name != r.kv_cache_dtype)
      result.series.push_back({.name = r.kv_cache_dtype, .points = {}, .line = {}});
    result.series.back().points.emplace_back(r.input_len, value(r));
  }
  return result;
}

SvgPlot itl_plot(const LatencyReport& report) {
  SvgPlot result = plot(report, [](const LatencyResult& r) { return r.itl_ms; });
  result.title = "Time between tokens";
  result.y_label = "ms per token";
  for (PlotSeries& series : result.series) {
    for (const LatencyFit& fit : report.fits) {
      if (fit.kv_cache_dtype != series.name) continue;
      const auto [least, most] = std::minmax_element(series.points.begin(), series.points.end());
      // Back to no context at all, unless the line would leave the plot on its way there.
      const double begin = fit.cost.itl_ms(0) >= 0 ? 0 : least->first;
      series.line = {{begin, fit.cost.itl_ms(begin)}, {most->first, fit.cost.itl_ms(most->first)}};
    }
  }
  return result;
}

SvgPlot ttft_plot(const LatencyReport& report) {
  SvgPlot result = plot(report, [](const LatencyResult& r) { return r.ttft_ms; });
  result.title = "Time to first token";
  result.y_label = "ms";
  return result;
}

}  // namespace

std::string latency_page(const LatencyReport& report) {
  std::string text = kHead;
  text += "<h1>Latency against context</h1>\n<p>" + escaped_html(report.model) + "<br>" + escaped_html(report.device) +
          "</p>\n";
  text += itl_plot(report).svg() + ttft_plot(report).svg();
  text += "<h2>Fits</h2>\n<table>\n" + row("th", {"kv cache", "ITL at 0, ms", "ms per 1k tokens"});
  for (const LatencyFit& fit : report.fits)
    text += row("td", {fit.kv_cache_dtype, fixed(fit.cost.intercept_ms, 3),
                       significant(1000 * fit.cost.slope_ms_per_token, 4)});
  text += "</table>\n";
  for (const std::string& sentence : break_even_sentences(report)) text += "<p>" + escaped_html(sentence) + ".</p>\n";
  text += "<h2>Results</h2>\n<table>\n" +
          row("th", {"kv cache", "input", "output", "TTFT, ms", "prefill, tok/s", "ITL, ms"});
  for (const LatencyResult& r : report.results)
    text += row("td", {r.kv_cache_dtype, std::to_string(r.input_len), std::to_string(r.output_len), fixed(r.ttft_ms, 2),
                       fixed(r.prefill_tok_s, 1), fixed(r.itl_ms, 3)});
  return text + "</table>\n</body>\n</html>\n";
}

}  // namespace octavo
