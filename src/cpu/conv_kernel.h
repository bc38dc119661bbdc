// The causal convolution of the vector paths, once for every instruction set: templates over a Vec, included by
// delta_<isa>.cc alone. Token by token over all channels of the tile, whose weights and last inputs lie turned in the
// first-level cache: walked channel by channel, tokens that are a power of two apart would push each other out of it.
#pragma once

#include "cpu/conv_tile.h"
#include "cpu/row_kernel.h"

namespace octavo::cpu {

template <class V, int kTaps>
class ConvKernel {
 public:
  explicit ConvKernel(const ConvTile& tile) : tile_(tile) {
    for (std::int64_t c = 0; c < kConvChannels; ++c) {
      const bool is_there = c < tile.channels;
      for (int j = 0; j < kTaps; ++j) weight_[j][c] = is_there ? tile.weight[c * kTaps + j] : 0.0f;
      for (int j = 0; j + 1 < kTaps; ++j) past_[j][c] = is_there ? tile.state[c * (kTaps - 1) + j] : 0.0f;
    }
  }

  // The input of token t takes the place of the oldest one: (t + kTaps - 1) % kTaps.
  void run() {
    for (std::int64_t t = 0; t < tile_.tokens; ++t) {
      const float* inputs[kTaps];
      for (int j = 0; j < kTaps; ++j) inputs[j] = past_[(t + j) % kTaps];
      take_token(t, inputs, past_[(t + kTaps - 1) % kTaps]);
    }
    for (int j = 0; j + 1 < kTaps; ++j)
      for (std::int64_t c = 0; c < tile_.channels; ++c)
        tile_.state[c * (kTaps - 1) + j] = past_[(tile_.tokens + j) % kTaps][c];
  }

 private:
  using F = typename V::F;
  using Rows = RowAccess<V>;

  void take_token(std::int64_t t, const float* const* inputs, float* newest) const {
    const ActivationRow x = Rows::row_of(tile_.x, t);
    const ActivationRow out = Rows::row_of(tile_.out, t);
    for (std::int64_t c = 0; c < tile_.channels; c += V::kLanes) {
      const F now = Rows::load(x, c, tile_.channels);
      V::store(newest + c, now);
      F sum = V::mul(V::load(weight_[kTaps - 1] + c), now);
#pragma GCC unroll 4
      for (int j = 0; j + 1 < kTaps; ++j) sum = V::fma(V::load(weight_[j] + c), V::load(inputs[j] + c), sum);
      const F silu = V::div(sum, V::add(V::all(1.0f), V::exp(V::sub(V::zero(), sum))));
      Rows::store(out, c, tile_.channels, silu);
    }
  }

  const ConvTile& tile_;
  alignas(64) float weight_[kTaps][kConvChannels];
  alignas(64) float past_[kTaps][kConvChannels];
};

template <class V>
void run_convolve(const ConvTile& tile) {
  if (tile.taps == 2) return ConvKernel<V, 2>(tile).run();
  if (tile.taps == 3) return ConvKernel<V, 3>(tile).run();
  ConvKernel<V, 4>(tile).run();
}

}  // namespace octavo::cpu
