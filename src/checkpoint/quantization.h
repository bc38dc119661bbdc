// What config.json's quantization_config says of the weights: which scheme, and what octavo makes of it.
// Sources: compressed-tensors and block FP8 (quant_method fp8); models.md section 10.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace octavo {

enum class WeightScheme { none, fp8_tensor, fp8_channel, fp8_block, mxfp4, int4, mixed };
// mxfp4: the experts alone. int4: packed integers with a scale for each 32 of a row, where the file has them; fp8 and int4
// together are mixed

struct Quantization {
  WeightScheme scheme = WeightScheme::none;
  int block_rows = 0;  // fp8_block
  int block_cols = 0;
  bool kv_scheme = false;       // the checkpoint says that it carries KV scales
  std::string description;       // "compressed-tensors float-quantized, weights per channel, inputs per token"
};

// A scheme that octavo does not support is refused by name ("quantization awq is not supported; ...").
Result<Quantization> read_quantization(const Json& config);

}  // namespace octavo
