// Random weights: every device makes the same numbers, and those that the generator is defined by.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/random_matrix.h"
#include "tests/conformance/arena.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

// The first outputs of splitmix64 with seed 0, as published with it.
constexpr std::uint64_t kSplitmix[] = {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu};

double expected_number(std::uint64_t place, double spread) {
  const std::uint64_t level = (kSplitmix[place / 4] >> (16 * (place % 4))) & 0xFFF;
  return (2.0 * static_cast<double>(level) + 1 - 4096) / 4096 * spread;
}

std::vector<std::byte> filled(Path& path, const RandomMatrix& matrix) {
  Arena arena(path.backend->device());
  const Tensor numbers = arena.blank({matrix.rows, matrix.cols}, matrix.dtype);
  path.backend->device().fill_random(numbers.raw(), matrix);
  return arena.read_bytes(numbers.raw(), static_cast<std::size_t>(numbers.bytes()));
}

TEST(RandomFill, NumbersAreThoseOfTheGenerator) {
  for_each_path([](Path& path) {
    const std::vector<std::byte> bf16 = filled(path, {.key = kGolden, .rows = 1, .cols = 12});
    const std::vector<std::byte> e4m3 = filled(path, {.key = kGolden, .dtype = DType::e4m3, .rows = 1, .cols = 12});
    for (std::uint64_t i = 0; i < 12; ++i) {
      const auto bits =
          static_cast<std::uint16_t>(static_cast<unsigned>(bf16[2 * i]) | static_cast<unsigned>(bf16[2 * i + 1]) << 8);
      const double number = expected_number(i, 0.035);
      EXPECT_NEAR(f32_from_bf16(bits), number, std::abs(number) / 256 + 1e-9) << i;
      const double code = expected_number(i, 448);
      EXPECT_NEAR(f32_from_e4m3(static_cast<std::uint8_t>(e4m3[i])), code, std::abs(code) / 16 + 1e-2) << i;
    }
  });
}

// Widths, places and cuts at which a device may take eight numbers at once, and others.
TEST(RandomFill, EveryDeviceMakesTheSameBitsAndSharesAreCuts) {
  for (const DType dtype : {DType::bf16, DType::e4m3})
    for (const RandomMatrix& matrix :
         {RandomMatrix{.key = 5, .dtype = dtype, .rows = 37, .cols = 4096, .stride = 4096},
          RandomMatrix{.key = 6, .dtype = dtype, .rows = 3, .cols = 1504, .first = 4800, .stride = 3200},
          RandomMatrix{.key = 7, .dtype = dtype, .rows = 9, .cols = 63, .first = 5, .stride = 131},
          RandomMatrix{.key = 8, .dtype = dtype, .rows = 1, .cols = 1, .first = (std::int64_t{1} << 40) + 3}}) {
      const std::int64_t row_bytes = dtype_bytes(dtype, matrix.cols);
      std::vector<std::byte> want(static_cast<std::size_t>(matrix.rows * row_bytes));
      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        const RandomMatrix one{.key = matrix.key,
                               .dtype = dtype,
                               .rows = 1,
                               .cols = matrix.cols,
                               .first = matrix.first + row * matrix.stride};
        make_random_rows(one, 0, 1, want.data() + row * row_bytes);
      }
      for_each_path([&](Path& path) { EXPECT_EQ(filled(path, matrix), want) << "key " << matrix.key; });
    }
}

}  // namespace
}  // namespace octavo::conformance
