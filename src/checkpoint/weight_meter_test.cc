#include "checkpoint/weight_meter.h"

#include <gtest/gtest.h>

#include <array>

namespace octavo {
namespace {

TEST(WeightMeter, CountsWhatDummiesWouldTake) {
  WeightMeter meter;
  Weight weight;
  Tensor vector;
  const std::array<PartRequest, 2> parts = {{{"q", 64}, {"k", 32}}};
  ASSERT_TRUE(meter.weight(weight, parts, 128));
  ASSERT_TRUE(meter.vector(vector, "norm.weight", 128));
  ASSERT_TRUE(meter.constant(vector, std::array<float, 8>{}));
  EXPECT_EQ(meter.bytes(), 2u * (64 + 32) * 128 + 4 * 128 + 4 * 8);
}

TEST(WeightMeter, ManyTerabytesDoNotOverflow) {
  WeightMeter meter;
  Weight weight;
  const PartRequest part{"w", std::int64_t{1} << 24};
  for (int layer = 0; layer < 1024; ++layer) ASSERT_TRUE(meter.weight(weight, {&part, 1}, 1 << 20));
  EXPECT_EQ(meter.bytes(), std::size_t{1} << 55);
}

}  // namespace
}  // namespace octavo
