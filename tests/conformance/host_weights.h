// Weights for tests: a part as bytes and the same in double, of every kind that checkpoints have, and products with it.
#pragma once

#include <vector>

#include "ops/backend.h"
#include "tensor/weight.h"
#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"

namespace octavo::conformance {

// A weight part as bytes, and the same in double.
struct HostPart {
  DType dtype = DType::f32;
  ScaleGrain grain = ScaleGrain::none;
  std::int64_t out = 0, in = 0;
  std::vector<std::byte> bytes = {};
  std::vector<float> scale = {};
  std::int64_t scale_rows = 0, scale_cols = 0;
  int block_rows = 0, block_cols = 0;
  std::vector<double> values = {};
  std::vector<std::byte> exponents = {};  // of e2m1
};

struct WeightKind {
  const char* name;
  DType dtype;
  ScaleGrain grain;
};
inline constexpr WeightKind kWeightKinds[] = {
    {"f32", DType::f32, ScaleGrain::none},
    {"f16", DType::f16, ScaleGrain::none},
    {"bf16", DType::bf16, ScaleGrain::none},
    {"e4m3 tensor", DType::e4m3, ScaleGrain::tensor},
    {"e4m3 channel", DType::e4m3, ScaleGrain::channel},
    {"e4m3 block", DType::e4m3, ScaleGrain::block},
    {"q4_0", DType::q4_0, ScaleGrain::none},
    {"q4_1", DType::q4_1, ScaleGrain::none},
    {"q5_0", DType::q5_0, ScaleGrain::none},
    {"q5_1", DType::q5_1, ScaleGrain::none},
    {"q8_0", DType::q8_0, ScaleGrain::none},
};
// In blocks of 256.
inline constexpr WeightKind kLargeKinds[] = {
    {"q4_k", DType::q4_k, ScaleGrain::none},
    {"q5_k", DType::q5_k, ScaleGrain::none},
    {"q6_k", DType::q6_k, ScaleGrain::none},
};
std::vector<WeightKind> all_weight_kinds();
inline constexpr WeightKind kMxfp4 = {"mxfp4", DType::e2m1, ScaleGrain::block};

// What number (row, column) is multiplied by.
double scale_at(const HostPart& part, std::int64_t row, std::int64_t column);

// Random numbers and scales; blocks of scales are 16 x 48, those of e2m1 1 x 32. Packed numbers are those that the gguf
// package reads from the blocks.
HostPart make_part(DType dtype, ScaleGrain grain, std::int64_t out, std::int64_t in, Random& random);

Weight upload(Arena& arena, const std::vector<HostPart>& parts);

// x [rows, in] times all parts, plus bias: [rows, out].
std::vector<double> product(const std::vector<HostPart>& parts, const std::vector<float>& x,
                            const std::vector<float>& bias);

}  // namespace octavo::conformance
