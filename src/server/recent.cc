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
  const std::uint64_t computed = stats.prompt_tokens - stats.cached_prompt_tokens;
  if (step_began_ && now - *step_began_ < kStep) return;
  if (step_began_) {
    const double seconds = std::chrono::duration<double>(now - *step_began_).count();
    const auto rate = [&](std::uint64_t then, std::uint64_t here) {
      return static_cast<double>(here - then) / seconds;
    };
    Sample sample;
    sample.time =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    sample.running = stats.running;
    sample.waiting = waiting;
    if (stats.pages_total > 0)
      sample.cache_usage = static_cast<double>(stats.pages_held) / static_cast<double>(stats.pages_total);
    sample.generated_per_second = rate(generated_, stats.generated_tokens);
    sample.computed_per_second = rate(computed_, computed);
    sample.first_token = quantiles_of(first_);
    sample.next_token = quantiles_of(next_);
    samples_.push_back(sample);
    if (samples_.size() > kSteps) samples_.pop_front();
  }
  step_began_ = now;
  generated_ = stats.generated_tokens;
  computed_ = computed;
  first_.clear();
  next_.clear();
}

Recent::Quantiles Recent::quantiles_of(const DurationSpread& spread) {
  return {.half = spread.quantile(0.5), .most = spread.quantile(0.99)};
}

OrderedJson Recent::json_of(const Quantiles& quantiles) {
  if (!quantiles.half) return {};
  OrderedJson json;
  json["p50"] = rounded(*quantiles.half);
  json["p99"] = rounded(*quantiles.most);
  return json;
}

OrderedJson Recent::json() const {
  OrderedJson json;
  json["step_seconds"] = kStep.count();
  json["steps_kept"] = kSteps;
  json["samples"] = OrderedJson::array();
  for (const Sample& sample : samples_) {
    OrderedJson row;
    row["time"] = sample.time;
    row["running"] = sample.running;
    row["waiting"] = sample.waiting;
    row["kv_cache_usage"] = rounded(sample.cache_usage);
    row["generated_tokens_per_second"] = rounded(sample.generated_per_second);
    row["computed_prompt_tokens_per_second"] = rounded(sample.computed_per_second);
    row["time_to_first_token"] = json_of(sample.first_token);
    row["inter_token_latency"] = json_of(sample.next_token);
    json["samples"].push_back(std::move(row));
  }
  return json;
}

}  // namespace octavo
