// ConvTile: the causal convolution of some channels over the tokens of one sequence, for the vector paths. Plain data
// and function declarations only, so that files of any instruction set may include it.
//
// A channel's numbers depend on its inputs alone: the same bits however tokens are cut into steps.
#pragma once

#include <cstdint>

namespace octavo::cpu {

// The most of a tile.
constexpr std::int64_t kConvTaps = 4;
constexpr std::int64_t kConvChannels = 512;

struct ConvTile {
  const void* x = nullptr;    // [tokens, channels], f32 or bf16
  std::int64_t x_stride = 0;  // elements from a token to the next
  bool x_is_bf16 = false;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  bool out_is_bf16 = false;
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
