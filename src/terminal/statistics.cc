#include "terminal/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace octavo {

double percentile(std::vector<double> values, double percent) {
  check(!values.empty(), "a percentile of something");
  std::sort(values.begin(), values.end());
  const double rank = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - std::floor(rank)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

double mean(const std::vector<double>& values) {
  check(!values.empty(), "a mean of something");
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace octavo
