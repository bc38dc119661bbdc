// ConvTile: the causal convolution of some channels over the tokens of one sequence, for the vector paths. Plain data
// and function declarations only, so that files of any instruction set may include it.
//
// A channel's numbers depend on its inputs alone: the same bits however tokens are cut into steps.
#pragma once

#include <cstdint>

#include "cpu/row_tasks.h"

namespace octavo::cpu {

// The most of a tile.
constexpr std::int64_t kConvTaps = 4;
constexpr std::int64_t kConvChannels = 512;

struct ConvTile {
  TokenRows x;  // [tokens, channels]
  TokenRows out;
  const float* weight = nullptr;  // [channels, taps]
  float* state = nullptr;         // [channels, taps - 1], oldest first, updated
  std::int64_t tokens = 0;
  std::int64_t channels = 0;
  std::int64_t taps = 0;  // 2 to kConvTaps
};

namespace avx512 {
void convolve(const ConvTile& tile);
}
namespace avx2 {
void convolve(const ConvTile& tile);
}

}  // namespace octavo::cpu
