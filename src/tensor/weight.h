// Weight: the matrix of a linear layer as it is stored: numbers, scales and their grain. y = x W^T, W is [out, in].
//
// A weight is a stack of parts along `out` (q, k and v of one attention; gate and up of one MLP): one `linear` computes
// them all, and each part keeps its own dtype and scales, as the file has them. Numbers stay packed. e2m1 numbers have a
// scale for each 32 of a row (MXFP4): grain block, 1 x 32.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace octavo {

enum class ScaleGrain : std::uint8_t {
  none,     // the numbers are the values (block types carry their own scales)
  tensor,   // scale [1]
  channel,  // scale [out]: one a row
  block,    // scale [ceil(out / block_rows), ceil(in / block_cols)]; edge blocks are partial
};

struct WeightPart {
  Tensor values;  // [out, in]
  ScaleGrain grain = ScaleGrain::none;
  Tensor scale;  // f32, of e2m1 numbers e8m0; value = number * scale
  int block_rows = 0;
  int block_cols = 0;
  Tensor input_scale;  // f32 [1]: static scale of the inputs for W8A8, or empty. The CPU wing does not round inputs
};

// What a wing made of a weight for its own products.
class WeightForm {
 public:
  virtual ~WeightForm() = default;
};

struct Weight {
  std::vector<WeightPart> parts;
  std::int64_t out = 0;  // sum over the parts
  std::int64_t in = 0;
  std::shared_ptr<const WeightForm> form = {};  // of Backend::prepare(), or null
};

}  // namespace octavo
