// WeightScale: the scales beside an e4m3 matrix, on the host. Their shape decides the grain; only whether [a, b] means
// blocks, and of which size, comes from the checkpoint's quantization.
//
// Refuses shapes that fit no grain and scales that are not finite and positive.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/quantization.h"
#include "checkpoint/shard.h"
#include "checkpoint/stored_tensor.h"
#include "tensor/weight.h"

namespace octavo {

struct WeightScale {
  ScaleGrain grain = ScaleGrain::tensor;
  std::int64_t rows = 1;  // of scales: 1, out, or the blocks along out
  std::int64_t cols = 1;
  int block_rows = 0;
  int block_cols = 0;
  std::vector<float> numbers;  // [rows, cols]
};

Result<WeightScale> read_weight_scale(const StoredTensor& tensor, std::int64_t out, std::int64_t in,
                                      const Quantization& quantization);

// The scales of a share of a matrix [out, in]; of smaller blocks where the share begins inside one. `paired`: as
// file_row; not per block.
Result<WeightScale> cut_scale(const WeightScale& whole, std::int64_t out, std::int64_t in, Range rows, Range cols,
                              std::int64_t paired);

// One positive number, whatever its shape: the static scale of the inputs.
Result<float> read_single_scale(const StoredTensor& tensor);

}  // namespace octavo
