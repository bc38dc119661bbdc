#include "tool/latency_results.h"

#include <cmath>

#include "terminal/table.h"

namespace octavo {

void add_fits(LatencyReport& report) {
  report.fits.clear();
  for (std::size_t begin = 0; begin < report.results.size();) {
    const std::string& name = report.results[begin].kv_cache_dtype;
    std::vector<CostPoint> points;
    std::size_t end = begin;
    for (; end < report.results.size() && report.results[end].kv_cache_dtype == name; ++end)
      points.push_back({static_cast<double>(report.results[end].input_len), report.results[end].itl_ms});
    if (const auto cost = fit_cost(points)) report.fits.push_back({name, *cost});
    begin = end;
  }
}

std::optional<double> LatencyReport::break_even() const {
  if (fits.size() < 2) return std::nullopt;
  return break_even_tokens(fits[0].cost, fits[1].cost);
}

OrderedJson as_json(const LatencyReport& report) {
  OrderedJson results = OrderedJson::array();
  for (const LatencyResult& r : report.results)
    results.push_back({{"kv_cache_dtype", r.kv_cache_dtype},
                       {"input_len", r.input_len},
                       {"output_len", r.output_len},
                       {"ttft_ms", r.ttft_ms},
                       {"prefill_tok_s", r.prefill_tok_s},
                       {"itl_ms", r.itl_ms}});
  OrderedJson fits = OrderedJson::array();
  for (const LatencyFit& fit : report.fits)
    fits.push_back({{"kv_cache_dtype", fit.kv_cache_dtype},
                    {"intercept_ms", fit.cost.intercept_ms},
                    {"slope_ms_per_token", fit.cost.slope_ms_per_token}});
  const auto tokens = report.break_even();
  return {{"results", results},
          {"fits", fits},
          {"break_even_tokens", tokens ? OrderedJson(*tokens) : OrderedJson(nullptr)}};
}

std::vector<std::string> break_even_sentences(const LatencyReport& report) {
  std::vector<std::string> sentences;
  for (std::size_t i = 1; i < report.fits.size(); ++i) {
    const std::string& base = report.fits.front().kv_cache_dtype;
    const auto tokens = break_even_tokens(report.fits.front().cost, report.fits[i].cost);
    sentences.push_back(report.fits[i].kv_cache_dtype +
                        (tokens ? " costs no more than " + base + " from " + fixed(std::ceil(*tokens), 0) + " tokens on"
                                : " has no context from which on it costs less than " + base));
  }
  return sentences;
}

std::string as_tables(const LatencyReport& report) {
  Table results({"kv cache", "input", "output", "TTFT ms", "prefill tok/s", "ITL ms"});
  for (const LatencyResult& r : report.results)
    results.add({r.kv_cache_dtype, std::to_string(r.input_len), std::to_string(r.output_len), fixed(r.ttft_ms, 2),
                 fixed(r.prefill_tok_s, 1), fixed(r.itl_ms, 3)});
  std::string text = results.text();
  if (report.fits.empty()) return text;
  Table fits({"kv cache", "ITL at 0 ms", "ms per 1k tokens"});
  for (const LatencyFit& fit : report.fits)
    fits.add({fit.kv_cache_dtype, fixed(fit.cost.intercept_ms, 3), significant(1000 * fit.cost.slope_ms_per_token, 4)});
  text += "\n" + fits.text();
  for (const std::string& sentence : break_even_sentences(report)) text += sentence + "\n";
  return text;
}

}  // namespace octavo
