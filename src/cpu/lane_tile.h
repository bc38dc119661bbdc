// LaneTile: a piece of y = x W^T over packed weights whose rows lie sixteen side by side (lane_weight.h), in whole
// numbers: each 32 numbers of x are 16-bit integers with a power of two as their scale, codes of the weight have 4 or 8
// bits, and their products are summed exactly. Numbers of bf16 keep all their bits but those below 2^-15 of the largest
// of the 32. Plain data and function declarations only, so that files of any instruction set may include it.
//
// Sums of 32 are exact and follow each other in the order of k: a row alone, in a batch or in a chunk has the same
// bits.
#pragma once

#include <cstdint>

namespace octavo::cpu {

enum class LaneKind : std::uint8_t { q4_0, q4_1, q8_0 };

constexpr int kLaneOuts = 16;
constexpr int kLaneGroup = 32;
constexpr int kLaneRowBytes = 2 * kLaneGroup;  // of a row's group: the upper bytes, then the lower ones
constexpr int kLaneSet = 8;                    // rows that lie together, group by group
constexpr std::int64_t kLaneRows = 128;  // the most rows of x that a tile takes: they stay in the second-level cache

struct LaneTile {
  // Of x, from the first row of a set of kLaneSet.
  const std::int8_t* codes = nullptr;  // [sets, groups, kLaneSet, kLaneRowBytes]
  const float* scales = nullptr;       // [sets, groups, kLaneSet]: x = scale (256 upper + lower)
  const float* sums = nullptr;         // [sets, groups, kLaneSet]: of the numbers of a group
  std::int64_t rows = 0;
  std::int64_t groups = 0;

  LaneKind kind = LaneKind::q4_1;
  const std::uint8_t* weight = nullptr;  // block 0: rows [0, 16) of the part
  std::int64_t head_bytes = 0;           // of a block: its scales, then codes
  std::int64_t block_bytes = 0;
  std::int64_t begin = 0;  // blocks [begin, end)
  std::int64_t end = 0;

  const float* bias = nullptr;  // of the part's row 0, or null
  void* out = nullptr;          // row 0 of x, the part's row 0; bf16 or f32
  std::int64_t out_stride = 0;  // elements
  bool out_is_bf16 = false;
};

namespace avx512vnni {
void lane_tile(const LaneTile& tile);
}  // namespace avx512vnni
namespace avx512 {
// A row of bf16 [32 groups] to its place in a set: the pointers are those of its first group. A group with a number
// that is not finite has the scale NaN.
void split_row(const std::uint16_t* x, std::int64_t groups, std::int8_t* codes, float* scales, float* sums);
// y [rows, kLaneOuts] as bf16.
void store_lanes(const float* y, int rows, std::uint16_t* out, std::int64_t stride);
}  // namespace avx512

}  // namespace octavo::cpu
