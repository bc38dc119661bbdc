// What a cached row must hold, worked out here in double from the definitions of the formats: tables of all codes,
// whole numbers times a bf16, the matrix of the rotation written out. Shares no code with the engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/format.h"

namespace octavo::conformance {

// The orthonormal Sylvester-Hadamard matrix in blocks, applied to a row. Its own inverse.
std::vector<double> rotated(std::span<const double> row);

struct ReferenceRow {
  std::vector<double> values;  // as they are read back, in the cache's basis
  std::vector<int> codes;      // 8-bit kinds: the code's bits, 0..255
  float scale = 1.0f;          // what codes are multiplied with
  std::uint64_t saturated = 0;
};

// `row` is float32 in the cache's basis; `given_scale` is used by the grains tensor and head.
ReferenceRow cached(const KvSegment& segment, float given_scale, std::span<const float> row);

}  // namespace octavo::conformance
