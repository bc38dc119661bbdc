// Order statistics of measurements. None of a list without numbers: callers have at least one.
#pragma once

#include <vector>

namespace octavo {

// Linear between the two nearest ranks, as numpy does by default: percent 0 is the least, 100 the greatest.
double percentile(std::vector<double> values, double percent);
double median(std::vector<double> values);
double mean(const std::vector<double>& values);
double deviation(const std::vector<double>& values);  // of these values themselves, not of what they are drawn from

}  // namespace octavo
