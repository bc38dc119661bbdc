// RandomMatrix: some rows and columns of a matrix of random numbers, which every device makes alike: a number depends
// on the key and its place in the whole matrix alone, so that shares equal cuts of the whole, and any thread can make
// any number.
//
// Numbers are spread evenly over +-kRandomSpread in 4096 levels: bf16 values, or e4m3 codes whose scale is
// kRandomScale; or they are codes of e2m1, all sixteen equally often, with the exponent kRandomExponent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/float8.h"

namespace octavo {

constexpr float kRandomSpread = 0.035f;
constexpr float kRandomScale = kRandomSpread / 448.0f;  // of e4m3 codes
constexpr std::uint8_t kRandomExponent = 127 - 8;       // e8m0, of e2m1 codes
constexpr std::uint64_t kNumbersPerHash = 4;            // 16 of its 64 bits each
constexpr std::uint64_t kRandomLevels = 4096;

struct RandomMatrix {
  std::uint64_t key = 0;
  DType dtype = DType::bf16;  // bf16, e4m3, or e2m1 with even rows and cuts
  std::int64_t rows = 0, cols = 0;
  std::int64_t first = 0;   // place of the first number in the whole matrix
  std::int64_t stride = 0;  // from one row's first number to the next's, in the whole matrix
};

// splitmix64's finalizer.
constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
constexpr std::uint64_t random_hash(std::uint64_t key, std::uint64_t place) {
  return mixed_bits(key + place / kNumbersPerHash * 0x9E3779B97F4A7C15u);
}
constexpr std::uint64_t random_level(std::uint64_t hash, std::uint64_t place) {
  return (hash >> (16 * (place % kNumbersPerHash))) % kRandomLevels;
}

// Between -1 and 1; exact in float32.
constexpr float level_value(std::uint64_t level) {
  return (2 * static_cast<float>(level) + 1 - static_cast<float>(kRandomLevels)) / static_cast<float>(kRandomLevels);
}
constexpr std::uint16_t random_bf16(std::uint64_t level) { return bf16_from_f32(level_value(level) * kRandomSpread); }
constexpr std::uint8_t random_e4m3(std::uint64_t level) { return e4m3_from_f32(level_value(level) * 448.0f); }

// The byte of the e2m1 numbers at `place`, which is even, and after it.
constexpr std::uint8_t random_e2m1_pair(std::uint64_t hash, std::uint64_t place) {
  return static_cast<std::uint8_t>(random_level(hash, place) / 256 | random_level(hash, place + 1) / 256 << 4);
}

// Rows [first, first + count) of `matrix`, by the host.
void make_random_rows(const RandomMatrix& matrix, std::int64_t first, std::int64_t count, std::byte* to);

}  // namespace octavo
