// What conformance tests compare with: random numbers that repeat, and one figure of error.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace octavo::conformance {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  std::uint64_t bits();
  double uniform();                        // [0, 1)
  float normal();                          // mean 0, deviation 1
  std::int32_t below(std::int32_t limit);  // [0, limit)
  std::vector<float> normals(std::int64_t count, float deviation = 1.0f);

 private:
  std::uint64_t state_;
};

// The numbers as the dtype holds them.
std::vector<float> rounded(std::vector<float> numbers, DType dtype);

// How far one rounding to nearest in this dtype moves a number, relative to it.
double rounding_of(DType dtype);

// The largest error of a row over that row's root mean square, over all rows of n; the error is |got - want| beyond
// what one rounding of `want` to the dtype of the result explains. Infinite for a NaN.
double row_error(std::span<const float> got, std::span<const double> want, std::int64_t n, DType result = DType::f32);

// Expects row_error <= bound. With OCTAVO_REPORT in the environment each figure is printed beside its bound.
void expect_close(const std::string& name, std::span<const float> got, std::span<const double> want, std::int64_t n,
                  double bound, DType result = DType::f32);

}  // namespace octavo::conformance
