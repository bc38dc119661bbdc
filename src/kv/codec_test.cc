#include "kv/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace octavo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal_row(int width, unsigned seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> row(static_cast<std::size_t>(width));
  for (float& x : row) x = normal(random);
  return row;
}

// Sylvester's matrix by its definition, blockwise, in double: entry (i, j) is (-1)^popcount(i & j) / sqrt(block).
std::vector<double> turned_by_definition(const std::vector<float>& row) {
  std::size_t block = 1;
  while (row.size() % (2 * block) == 0) block *= 2;
  std::vector<double> turned(row.size(), 0.0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t begin = i / block * block;
    for (std::size_t j = 0; j < block; ++j)
      turned[i] += (std::popcount((i - begin) & j) % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(row[begin + j]);
    turned[i] /= std::sqrt(static_cast<double>(block));
  }
  return turned;
}

TEST(Hadamard, IsTheOrthonormalSylvesterMatrixAndItsOwnInverse) {
  for (const int width :
       {2, 4, 6, 16, 24, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 320, 512, 576}) {
    ASSERT_TRUE(has_hadamard(width)) << width;
    const std::vector<float> row = normal_row(width, static_cast<unsigned>(width));
    std::vector<float> turned = row;
    hadamard(turned.data(), width);
    const std::vector<double> expected = turned_by_definition(row);
    double error = 0, before = 0, after = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      error += std::pow(static_cast<double>(turned[i]) - expected[i], 2);
      before += std::pow(static_cast<double>(row[i]), 2);
      after += std::pow(static_cast<double>(turned[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / before), 5e-7) << width;
    EXPECT_NEAR(std::sqrt(after / before), 1.0, 5e-7) << width;

    hadamard(turned.data(), width);
    double back = 0;
    for (std::size_t i = 0; i < row.size(); ++i) back += std::pow(static_cast<double>(turned[i]) - row[i], 2);
    EXPECT_LT(std::sqrt(back / before), 5e-7) << width;
  }
}

TEST(Hadamard, ExistsForPowersOfTwoTimesSmallOddNumbers) {
  for (const int width : {-64, 0, 1, 3, 5, 15, 34, 63, 65, 127}) EXPECT_FALSE(has_hadamard(width)) << width;
  EXPECT_EQ(hadamard_block(96), 32);
  EXPECT_EQ(hadamard_block(80), 16);
  EXPECT_EQ(hadamard_block(256), 256);
}

TEST(Hadamard, LeavesScoresAlone) {
  std::vector<float> q = normal_row(96, 1), k = normal_row(96, 2);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < q.size(); ++i) before += static_cast<double>(q[i]) * k[i];
  hadamard(q.data(), 96);
  hadamard(k.data(), 96);
  for (std::size_t i = 0; i < q.size(); ++i) after += static_cast<double>(q[i]) * k[i];
  EXPECT_NEAR(before, after, 1e-5);
}

// Nearest even of the rounded product, clipped, in double.
int int8_by_definition(float x, float inverse) {
  const volatile float product = x * inverse;
  if (std::isnan(product)) return 0;
  return static_cast<int>(std::nearbyint(std::fmin(127.0, std::fmax(-127.0, static_cast<double>(product)))));
}

TEST(Int8, RoundsToNearestEvenForEveryBf16) {
  for (const float inverse : {1.0f, 0.5f, 127.0f / 3.0f, 0.3333f, 1e-3f, 1e30f, 0.0f}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float x = f32_from_bf16(static_cast<std::uint16_t>(bits));
      ASSERT_EQ(int8_from_f32(x, inverse), int8_by_definition(x, inverse)) << x << " * " << inverse;
    }
  }
}

TEST(Int8, TiesGoToEvenAndTheirNeighboursDoNot) {
  for (int i = -127; i < 127; ++i) {
    const float tie = static_cast<float>(i) + 0.5f;
    EXPECT_EQ(int8_from_f32(tie, 1.0f), i % 2 == 0 ? i : i + 1);
    EXPECT_EQ(int8_from_f32(std::nextafterf(tie, -kInfinity), 1.0f), i);
    EXPECT_EQ(int8_from_f32(std::nextafterf(tie, kInfinity), 1.0f), i + 1);
  }
}

struct EncodedRow {
  std::uint16_t scale = 0;
  std::vector<std::int8_t> codes;
  float value(std::size_t i) const { return static_cast<float>(codes[i]) * f32_from_bf16(scale); }
};

EncodedRow encode_row(const std::vector<float>& row) {
  EncodedRow encoded;
  encoded.scale = int8_scale(row_amax(row.data(), static_cast<int>(row.size())));
  const float inverse = int8_inverse(encoded.scale);
  for (const float x : row) encoded.codes.push_back(int8_from_f32(x, inverse));
  return encoded;
}

TEST(Int8, ScaleIsTheSmallestBf16ThatClipsNothing) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponents(-119.0f, 126.0f);
  for (int n = 0; n < 20000; ++n) {
    const float amax = std::exp2(exponents(random));
    const double exact = static_cast<double>(amax) / 127.0;
    const std::uint16_t scale = int8_scale(amax);
    ASSERT_GE(f32_from_bf16(scale), exact * (1 - 0x1p-24)) << amax;
    ASSERT_LT(f32_from_bf16(static_cast<std::uint16_t>(scale - 1)), exact) << amax;
    ASSERT_LE(std::abs(int{int8_from_f32(amax, int8_inverse(scale))}), 127);
  }
}

TEST(Int8, RowsStayWithinHalfAStep) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = normal_row(128, seed, std::exp2(static_cast<float>(seed) - 25.0f));
    const EncodedRow encoded = encode_row(row);
    const double step = f32_from_bf16(encoded.scale);
    for (std::size_t i = 0; i < row.size(); ++i)
      ASSERT_LE(std::abs(static_cast<double>(encoded.value(i)) - row[i]), step * 0.50001) << seed;
  }
}

TEST(Int8, OddRows) {
  const EncodedRow zero = encode_row({0.0f, -0.0f, 0.0f});
  EXPECT_EQ(zero.scale, 0);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(zero.value(i), 0.0f);

  const EncodedRow tiny = encode_row({1e-40f, -1e-38f});
  EXPECT_EQ(tiny.value(0), 0.0f);
  EXPECT_EQ(tiny.value(1), 0.0f);
  const EncodedRow small = encode_row({0x1p-119f, -0x1p-119f});
  EXPECT_NEAR(small.value(0) / 0x1p-119f, 1.0f, 0.01f);

  const EncodedRow nan = encode_row({1.0f, kNan, 2.0f});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(nan.value(i))) << "a NaN stays in its row, and shows";
  EXPECT_TRUE(std::isnan(encode_row({kInfinity, -kNan}).value(0)));

  const EncodedRow infinite = encode_row({kInfinity, -kInfinity, 1.0f, 0.0f});
  EXPECT_EQ(infinite.codes, (std::vector<std::int8_t>{127, -127, 0, 0}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(infinite.value(i)));
  const float largest = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isfinite(encode_row({largest, 1.0f}).value(0)));
}

TEST(Codec, EightBitKindsAgreeWithTheirFloats) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = f32_from_bf16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(encode8(KvElem::e4m3, x), e4m3_from_f32(x));
    ASSERT_EQ(encode8(KvElem::e5m2, x), e5m2_from_f32(x));
  }
  EXPECT_EQ(decode8(KvElem::int8, 0x81), -127.0f);
  EXPECT_EQ(decode8(KvElem::e4m3, 0x7E), max_value(KvElem::e4m3));
  EXPECT_EQ(decode8(KvElem::e5m2, 0xFB), -max_value(KvElem::e5m2));
}

constexpr bool works_at_compile_time() {
  float row[4] = {1, 2, 3, 4};
  hadamard(row, 4);
  return row[0] == 5.0f && int8_from_f32(2.5f, 1.0f) == 2 && int8_from_f32(-3.5f, 1.0f) == -4;
}
static_assert(works_at_compile_time());

}  // namespace
}  // namespace octavo
