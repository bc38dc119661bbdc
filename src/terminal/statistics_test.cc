#include "terminal/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "terminal/progress.h"

namespace octavo {
namespace {

TEST(Statistics, OfOneToN) {
  for (const int n : {1, 2, 7, 100}) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.rbegin(), values.rend(), 1.0);
    EXPECT_DOUBLE_EQ(mean(values), (n + 1) / 2.0);
    EXPECT_DOUBLE_EQ(median(values), (n + 1) / 2.0);
    EXPECT_NEAR(deviation(values), std::sqrt((n * n - 1) / 12.0), 1e-12);
    for (const double percent : {0.0, 25.0, 99.0, 99.9, 100.0})
      EXPECT_NEAR(percentile(values, percent), 1 + percent / 100 * (n - 1), 1e-9);
  }
}

TEST(Progress, TheBarFillsByShare) {
  EXPECT_EQ(Progress::line("x", 0, 3, 6, ""), "x [------] 0/3");
  EXPECT_EQ(Progress::line("x", 1, 3, 6, "n"), "x [##----] 1/3  n");
  EXPECT_EQ(Progress::line("x", 3, 3, 6, ""), "x [######] 3/3");
}

}  // namespace
}  // namespace octavo
