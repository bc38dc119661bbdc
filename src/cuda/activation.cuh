// The activations of ops.h on the device, in float32.
#pragma once

#include "ops/ops.h"

namespace octavo::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// exp(-g) beyond float32's range is infinity: the quotient is 0, and 0 times the gate is 0. `up` comes last, since up
// times the gate may be infinite.
__device__ inline float activate(Activation kind, float limit, float gate, float up) {
  switch (kind) {
    case Activation::silu:
      return up * (gate * sigmoid(gate));
    case Activation::gelu_tanh: {
      const float root = 0.7978845608028654f;  // sqrt(2 / pi)
      // 0.5 (1 + tanh(u)) = sigmoid(2u), which loses nothing where tanh is close to -1.
      return up * (gate * sigmoid(2.0f * root * (gate + 0.044715f * gate * gate * gate)));
    }
    case Activation::sigmoid:
      return up * sigmoid(gate);
    case Activation::clamped_swish: {
      const float g = gate > limit ? limit : gate;
      const float u = up < -limit ? -limit : up > limit ? limit : up;  // a NaN stays one
      return (u + 1.0f) * (g * sigmoid(1.702f * g));
    }
  }
  return 0.0f;
}

}  // namespace octavo::cuda
