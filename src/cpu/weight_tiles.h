// What the products of the vector paths share: a weight cut into LinearTiles, and rows of x as tiles read
// them.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "cpu/linear_tile.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace octavo::cpu {

struct LinearPath {
  LinearTileFunction tile;
  WidenFunction widen;
};

// Memory of floats that begins at a cache line: registers that cross lines cost twice.
struct FreeFloats {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], FreeFloats>;
Floats make_floats(std::int64_t count);

// How tiles want each 32 numbers of x: as they are, or the even ones before the odd ones.
enum class InputOrder : std::uint8_t { natural, evens_first };
InputOrder input_order(const Weight& weight);

// Whether tiles read this weight: rare dtypes, scales of an unusual grain and parts that want x in different orders are
// left to the plain path.
bool is_tiled(const Weight& weight);

// The part as a tile that says how to read it, and nothing of x, rows or results.
LinearTile tile_of(const WeightPart& part);

// Appends the weight's tiles for row 0 of x and `out` [rows, outs]; x is not set. bias: [outs] or null.
void add_tiles(const Weight& weight, const float* bias, const Tensor& out, std::vector<LinearTile>& tiles);

// Rows of x as floats, padded with zeros to kLinearPad; x itself where it is so already.
class LinearInputs {
 public:
  LinearInputs(ThreadPool& pool, const Tensor& x, WidenFunction widen);
  // Row i is row rows[i] of x, its numbers in this order.
  LinearInputs(ThreadPool& pool, const Tensor& x, std::span<const std::int64_t> rows, InputOrder order,
               WidenFunction widen);

  const float* row(std::int64_t i) const { return rows_ + i * stride_; }
  std::int64_t stride() const { return stride_; }

 private:
  const float* rows_ = nullptr;
  std::int64_t stride_ = 0;
  Floats memory_;
};

}  // namespace octavo::cpu
