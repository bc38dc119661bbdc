#include "engine/cost_model.h"

#include <algorithm>

namespace octavo {

// Sums over deviations from the means: contexts of 100,000 with costs of a few milliseconds would cancel otherwise.
std::optional<CostModel> fit_cost(std::span<const CostPoint> points) {
  if (points.empty()) return std::nullopt;
  double mean_context = 0;
  double mean_cost = 0;
  for (const CostPoint& point : points) {
    mean_context += point.context / static_cast<double>(points.size());
    mean_cost += point.itl_ms / static_cast<double>(points.size());
  }
  double spread = 0;
  double product = 0;
  for (const CostPoint& point : points) {
    spread += (point.context - mean_context) * (point.context - mean_context);
    product += (point.context - mean_context) * (point.itl_ms - mean_cost);
  }
  const auto differs = [&](const CostPoint& point) { return point.context != points.front().context; };
  if (std::none_of(points.begin(), points.end(), differs)) return std::nullopt;
  const double slope = product / spread;
  return CostModel{.intercept_ms = mean_cost - slope * mean_context, .slope_ms_per_token = slope};
}

std::optional<double> break_even_tokens(const CostModel& base, const CostModel& other) {
  const double saved = base.slope_ms_per_token - other.slope_ms_per_token;  // for each token of context
  const double extra = other.intercept_ms - base.intercept_ms;              // for every token
  if (saved < 0 || (saved == 0 && extra > 0)) return std::nullopt;
  return extra <= 0 ? 0.0 : extra / saved;
}

}  // namespace octavo
