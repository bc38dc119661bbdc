#include "tensor/random_matrix.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "tensor/device.h"

namespace octavo {
namespace {

constexpr std::int64_t kStagingBytes = 1 << 20;  // stays in a core's cache between making and upload

// A look-up is cheaper than a conversion, and makes more than a GB/s.
template <class T>
using Levels = std::array<T, kRandomLevels>;

template <class T, class Convert>
void make_rows(const RandomMatrix& matrix, std::int64_t first, std::int64_t count, T* to, Convert convert) {
  Levels<T> levels;
  for (std::uint64_t level = 0; level < kRandomLevels; ++level) levels[level] = convert(level);
  for (std::int64_t row = first; row < first + count; ++row) {
    auto place = static_cast<std::uint64_t>(matrix.first + row * matrix.stride);
    const std::uint64_t end = place + static_cast<std::uint64_t>(matrix.cols);
    while (place < end) {
      const std::uint64_t hash = random_hash(matrix.key, place);
      do {
        *to++ = levels[random_level(hash, place)];
        ++place;
      } while (place < end && place % kNumbersPerHash != 0);
    }
  }
}

void make_pairs(const RandomMatrix& matrix, std::int64_t first, std::int64_t count, std::uint8_t* to) {
  check(matrix.first % 2 == 0 && matrix.stride % 2 == 0 && matrix.cols % 2 == 0, "numbers of e2m1 come in pairs");
  for (std::int64_t row = first; row < first + count; ++row) {
    const auto begin = static_cast<std::uint64_t>(matrix.first + row * matrix.stride);
    for (std::uint64_t place = begin; place < begin + static_cast<std::uint64_t>(matrix.cols); place += 2)
      *to++ = random_e2m1_pair(random_hash(matrix.key, place), place);
  }
}

}  // namespace

void make_random_rows(const RandomMatrix& matrix, std::int64_t first, std::int64_t count, std::byte* to) {
  if (matrix.dtype == DType::bf16)
    return make_rows(matrix, first, count, reinterpret_cast<std::uint16_t*>(to), random_bf16);
  if (matrix.dtype == DType::e2m1) return make_pairs(matrix, first, count, reinterpret_cast<std::uint8_t*>(to));
  check(matrix.dtype == DType::e4m3, "random numbers are bf16, e4m3 or e2m1");
  make_rows(matrix, first, count, reinterpret_cast<std::uint8_t*>(to), random_e4m3);
}

void Device::fill_random(std::byte* to, const RandomMatrix& matrix) {
  const std::int64_t row_bytes = dtype_bytes(matrix.dtype, matrix.cols);
  if (row_bytes == 0 || matrix.rows == 0) return;
  const std::int64_t step = std::clamp<std::int64_t>(kStagingBytes / row_bytes, 1, matrix.rows);
  std::vector<std::byte> staging(static_cast<std::size_t>(step * row_bytes));
  for (std::int64_t row = 0; row < matrix.rows; row += step) {
    const std::int64_t count = std::min(step, matrix.rows - row);
    make_random_rows(matrix, row, count, staging.data());
    upload(to + row * row_bytes, std::span(staging).first(static_cast<std::size_t>(count * row_bytes)));
  }
}

}  // namespace octavo
