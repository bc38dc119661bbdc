#include "tests/conformance/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numbers>

#include "tensor/float8.h"

namespace octavo::conformance {

std::uint64_t Random::bits() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

float Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
}

std::int32_t Random::below(std::int32_t limit) {
  return static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(limit));
}

std::vector<float> Random::normals(std::int64_t count, float deviation) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal() * deviation;
  return numbers;
}

std::vector<float> rounded(std::vector<float> numbers, DType dtype) {
  for (float& x : numbers) {
    if (dtype == DType::bf16) x = f32_from_bf16(bf16_from_f32(x));
    if (dtype == DType::f16) x = f32_from_f16(f16_from_f32(x));
  }
  return numbers;
}

double rounding_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0.0; }

double row_error(std::span<const float> got, std::span<const double> want, std::int64_t n, DType result) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  const auto width = static_cast<std::size_t>(n);
  for (std::size_t begin = 0; begin < got.size(); begin += width) {
    double squares = 0.0;
    double difference = 0.0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      squares += want[i] * want[i];
      const double d = std::fabs(got[i] - want[i]) - rounding_of(result) * std::fabs(want[i]);
      difference = std::max(difference, d);
      if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    }
    if (difference > 0) worst = std::max(worst, difference / std::sqrt(squares / static_cast<double>(n)));
  }
  return worst;
}

void expect_close(const std::string& name, std::span<const float> got, std::span<const double> want, std::int64_t n,
                  double bound, DType result) {
  const double error = row_error(got, want, n, result);
  EXPECT_LE(error, bound) << name;
  if (std::getenv("OCTAVO_REPORT") != nullptr)
    std::printf("%s: relative error %.2g, bound %.2g\n", name.c_str(), error, bound);
}

}  // namespace octavo::conformance
