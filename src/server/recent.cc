#include "server/recent.h"

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

// Three digits are what a curve shows, and what a quantile is right to.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2);
  return unit < 1 ? std::round(value / unit) / std::round(1 / unit) : std::round(value);
}

OrderedJson quantiles_json(const DurationSpread& spread) {
  const auto half = spread.quantile(0.5), most = spread.quantile(0.99);
  if (!half) return {};
  OrderedJson json;
  json["p50"] = rounded(*half);
  json["p99"] = rounded(*most);
  return json;
}

}  // namespace

void DurationSpread::observe(double seconds) {
  const double doublings = std::log2(std::max(seconds, kLeast) / kLeast);
  const auto last = static_cast<double>(counts_.size() - 1);
  ++counts_[static_cast<std::size_t>(std::min(doublings * kPerDoubling, last))];
  ++total_;
}

void DurationSpread::clear() {
  counts_.fill(0);
  total_ = 0;
}

std::optional<double> DurationSpread::quantile(double share) const {
  if (total_ == 0) return std::nullopt;
  const double rank = std::max(1.0, std::ceil(share * static_cast<double>(total_)));
  double seen = 0;
  std::size_t bucket = 0;
  while (bucket + 1 < counts_.size() && (seen += counts_[bucket]) < rank) ++bucket;
  return kLeast * std::exp2((static_cast<double>(bucket) + 0.5) / kPerDoubling);
}

void Recent::tick(Clock::time_point now, const EngineStats& stats, int waiting) {
  if (now - step_began_ < kStep) return;
  const std::uint64_t computed = stats.prompt_tokens - stats.cached_prompt_tokens;
  const double seconds = std::chrono::duration<double>(now - step_began_).count();
  rows_.push_back(to_text(row(seconds, stats, computed, waiting)));
  if (rows_.size() > kSteps) rows_.pop_front();
  step_began_ = now;
  generated_ = stats.generated_tokens;
  computed_ = computed;
  first_.clear();
  next_.clear();
}

OrderedJson Recent::row(double seconds, const EngineStats& stats, std::uint64_t computed, int waiting) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto rate = [&](std::uint64_t then, std::uint64_t here) {
    return rounded(static_cast<double>(here - then) / seconds);
  };
  OrderedJson row;
  row["time"] = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  row["running"] = stats.running;
  row["waiting"] = waiting;
  const double total = static_cast<double>(std::max<std::int64_t>(stats.pages_total, 1));
  row["kv_cache_usage"] = rounded(static_cast<double>(stats.pages_held) / total);
  row["generated_tokens_per_second"] = rate(generated_, stats.generated_tokens);
  row["computed_prompt_tokens_per_second"] = rate(computed_, computed);
  row["time_to_first_token"] = quantiles_json(first_);
  row["inter_token_latency"] = quantiles_json(next_);
  return row;
}

std::string Recent::text() const {
  std::string text = "{\"step_seconds\":" + std::to_string(kStep.count());
  text += ",\"steps_kept\":" + std::to_string(kSteps) + ",\"samples\":[";
  for (const std::string& row : rows_) {
    if (&row != &rows_.front()) text += ',';
    text += row;
  }
  return text + "]}";
}

}  // namespace octavo
