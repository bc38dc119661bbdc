// Inputs of an FP8 product: rows of x as e4m3 codes with their scales, and the scales of a stack of weights as the
// library wants them, all in one kernel.
//
// scale = amax / 448 of a row or of its 128 columns, or one that the checkpoint gives; code = nearest even of x /
// scale, saturated. A row that holds a NaN keeps it, one with an infinity gives NaN.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "tensor/tensor.h"

namespace octavo::cuda {

constexpr int kMaxStacked = 4;            // parts that one product may join
constexpr std::int64_t kBlockSide = 128;  // of scales per block

// Where a part's scales come from: [rows, cols], or one number for all rows.
struct ScaleSource {
  const float* from = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  bool single = false;
};

struct QuantizeArgs {
  Tensor x = {};                        // bf16 [tokens, in], rows strided, aligned to 16 bytes, in % 8 == 0
  const float* static_scale = nullptr;  // of all inputs, or null: by amax
  bool by_block = false;                // a scale for each 128 columns (in % 128 == 0), else for each row
  std::int64_t padded_tokens = 0;       // rows of codes, those beyond `tokens` zero

  std::byte* codes = nullptr;  // [padded_tokens, in]
  float* x_scale = nullptr;    // [padded_tokens], or by_block [in / 128, padded_tokens]

  std::array<ScaleSource, kMaxStacked> weights = {};
  float* weight_scale = nullptr;  // all rows of `weights` one after another, scale_cols each
  std::int64_t scale_cols = 1;    // by_block: in / 128
  std::int64_t scale_stride = 1;  // by_block: scale_cols rounded up to four
};

void quantize(cudaStream_t stream, const QuantizeArgs& work);

// to = sums * x_scale * weight_scale + bias, rounded once. Null scales are 1, a null bias is 0.
struct FinishedSums {
  const float* sums = nullptr;  // [tokens, out]
  std::int64_t stride = 0;
  const float* x_scale = nullptr;       // [tokens]
  const float* weight_scale = nullptr;  // [out]
  const float* bias = nullptr;          // [out]
  Tensor to = {};                       // bf16 or f32 [tokens, out], rows strided
};
void finish_sums(cudaStream_t stream, const FinishedSums& work);

}  // namespace octavo::cuda
