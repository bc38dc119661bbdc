// LinearTile: a piece of y = x W^T for the vector paths: some rows of x by some rows of one weight. Plain data and
// function declarations only, so that files of any instruction set may include it.
//
// Every sum runs over k in the same order whatever the number of rows: a lane takes each kLanes-th product, lanes are
// added in a fixed tree. A row alone, in a batch or in a chunk has the same bits.
#pragma once

#include <cstdint>

namespace octavo::cpu {

enum class WeightKind : std::uint8_t { f32, f16, bf16, e4m3, e2m1, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k };

// x is unpacked to floats, its rows padded with zeros to a multiple of this.
constexpr int kLinearPad = 32;
// The most rows of x that a tile takes: they stay in the second-level cache while weights pass.
constexpr std::int64_t kTileRows = 128;

struct LinearTile {
  const float* x = nullptr;  // [rows, x_stride]
  std::int64_t x_stride = 0;
  std::int64_t rows = 0;  // at most kTileRows
  std::int64_t in = 0;

  WeightKind kind = WeightKind::f32;
  const std::uint8_t* weight = nullptr;  // the part's row 0
  std::int64_t row_bytes = 0;            // from a row to the next
  std::int64_t begin = 0;                // rows [begin, end) of the part
  std::int64_t end = 0;
  // e4m3 only: value = code * scale[o / scale_rows * scale_stride + i / scale_cols]; scale_cols is a multiple of
  // kLinearPad.
  const float* scale = nullptr;
  std::int64_t scale_rows = 1;
  std::int64_t scale_stride = 0;
  std::int64_t scale_cols = 1;
  // e2m1 only: e8m0 [outs, exponent_stride], one for each 32 numbers. Each 32 numbers of x are the even ones, then the
  // odd ones, as the nibbles of a weight come apart.
  const std::uint8_t* exponents = nullptr;
  std::int64_t exponent_stride = 0;

  const float* bias = nullptr;  // of the part's row 0, or null
  void* out = nullptr;          // row 0 of x, the part's row `out_first`; bf16 or f32
  std::int64_t out_stride = 0;  // elements
  std::int64_t out_first = 0;
  bool out_is_bf16 = false;
};

// linear_tile(): out [rows, end - begin] = x W^T. turned_linear_tile(): out [rows, in] = x W with x [rows, end -
// begin], without a bias; kinds whose numbers lie in another order than x's (e2m1) are not for it.
using LinearTileFunction = void (*)(const LinearTile&);
// n numbers, bf16 as floats.
using WidenFunction = void (*)(const std::uint16_t* from, std::int64_t n, float* to);

namespace avx512 {
void linear_tile(const LinearTile& tile);
void turned_linear_tile(const LinearTile& tile);
void widen(const std::uint16_t* from, std::int64_t n, float* to);
}  // namespace avx512
namespace avx2 {
void linear_tile(const LinearTile& tile);
void turned_linear_tile(const LinearTile& tile);
void widen(const std::uint16_t* from, std::int64_t n, float* to);
}  // namespace avx2

}  // namespace octavo::cpu
