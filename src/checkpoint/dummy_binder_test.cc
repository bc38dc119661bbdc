#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "checkpoint/binder.h"
#include "checkpoint/test_files.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

using namespace octavo::testing;

std::vector<std::uint16_t> bits_of(const Weight& weight) {
  const auto* data = weight.parts[0].values.data<std::uint16_t>();
  return std::vector<std::uint16_t>(data, data + weight.out * weight.in);
}

Weight bind(DummyBinder& binder, const PartRequest& part, std::int64_t in) {
  Weight weight;
  EXPECT_TRUE(binder.weight(weight, {&part, 1}, in));
  return weight;
}

TEST(DummyBinder, FillsUniformly) {
  HostDevice device;
  DummyBinder binder(device, {}, 1);
  const Weight weight = bind(binder, {"w", 512}, 511);
  EXPECT_EQ(weight.parts[0].values.describe(), "bf16 [512, 511]");
  double sum = 0, squares = 0, largest = 0;
  for (const std::uint16_t bits : bits_of(weight)) {
    const double x = f32_from_bf16(bits);
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
  }
  const double n = 512 * 511;
  EXPECT_LE(largest, 0.0351);
  EXPECT_NEAR(sum / n, 0, 2e-4);
  EXPECT_NEAR(std::sqrt(squares / n), 0.035 / std::sqrt(3.0), 2e-4);
}

TEST(DummyBinder, DependsOnSeedNameAndPlaceAlone) {
  HostDevice device;
  DummyBinder one(device, {}, 7), again(device, {}, 7), other(device, {}, 8);
  const auto whole = bits_of(bind(one, {"w", 6}, 10));
  EXPECT_EQ(whole, bits_of(bind(again, {"w", 6}, 10)));
  EXPECT_NE(whole, bits_of(bind(again, {"v", 6}, 10)));
  EXPECT_NE(whole, bits_of(bind(other, {"w", 6}, 10)));
  DummyBinder second(device, {1, 2}, 7);
  const auto rows = bits_of(bind(second, {"w", 6, Cut::rows, 1}, 10));
  EXPECT_EQ(rows, std::vector<std::uint16_t>(whole.begin() + 30, whole.end()));
  const auto columns = bits_of(bind(second, {"w", 6, Cut::columns, 1}, 10));
  ASSERT_EQ(columns.size(), 30u);
  for (std::size_t i = 0; i < columns.size(); ++i) EXPECT_EQ(columns[i], whole[i / 5 * 10 + 5 + i % 5]);
}

TEST(DummyBinder, VectorsNamesAndScales) {
  HostDevice device;
  DummyBinder binder(device, {}, 1);
  Tensor vector;
  const std::array<PartRequest, 2> parts = {{{"model.norm.weight", 2}, {"q.bias", 3}}};
  ASSERT_TRUE(binder.vectors(vector, parts));
  EXPECT_EQ(vector.describe(), "f32 [5]");
  EXPECT_EQ(vector.data<float>()[1], 1.0f);
  EXPECT_LT(std::abs(vector.data<float>()[2]), 0.036f);
  EXPECT_FALSE(binder.has("lm_head.weight"));
  EXPECT_TRUE(binder.kv_scales("a", 2, 1)->key.empty());
  device.limit = 100;
  Weight weight;
  const PartRequest part{"w", 100};
  EXPECT_EQ(binder.weight(weight, {&part, 1}, 100).error().kind(), ErrorKind::exhausted);
}

// A config that tells of FP8 weights gets dummies of that kind: the matrices of layers, with scales in the scheme's
// shape.
TEST(DummyBinder, KeepsTheKindOfWeightsThatTheConfigTells) {
  HostDevice device;
  struct Case {
    WeightScheme scheme;
    const char* scale;
  };
  for (const Case& c : {Case{WeightScheme::fp8_tensor, "f32 [1]"}, Case{WeightScheme::fp8_channel, "f32 [200]"},
                        Case{WeightScheme::fp8_block, "f32 [2, 3]"}}) {
    Quantization quantization;
    quantization.scheme = c.scheme;
    quantization.block_rows = quantization.block_cols = 128;
    DummyBinder binder(device, {}, 1, quantization);
    const Weight weight = bind(binder, {"model.layers.0.mlp.up_proj", 200}, 300);
    const WeightPart& part = weight.parts[0];
    EXPECT_EQ(part.values.describe(), "e4m3 [200, 300]");
    EXPECT_EQ(part.scale.describe(), c.scale);
    double squares = 0;
    for (std::int64_t i = 0; i < 200 * 300; ++i) {
      const double x = f32_from_e4m3(part.values.data<std::uint8_t>()[i]) * part.scale.data<float>()[0];
      EXPECT_LE(std::abs(x), 0.0351);
      squares += x * x;
    }
    EXPECT_NEAR(std::sqrt(squares / (200 * 300)), 0.035 / std::sqrt(3.0), 3e-4);
    EXPECT_EQ(bind(binder, {"lm_head", 8}, 16).parts[0].values.dtype(), DType::bf16);
    EXPECT_EQ(bind(binder, {"model.layers.0.mlp.gate", 8}, 16).parts[0].values.dtype(), DType::bf16);
  }
}

}  // namespace
}  // namespace octavo
