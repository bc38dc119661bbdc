// Work on single rows for the vector paths: norms, gated activations, and the steps of the cache's writer. Plain data
// and function declarations only, so that files of any instruction set may include it. A row's result depends on the
// row alone.
#pragma once

#include <cstdint>

namespace octavo::cpu {

// A row of activations, f32 or bf16.
struct ActivationRow {
  void* data = nullptr;
  bool is_bf16 = false;
};

// The rows of consecutive tokens.
struct TokenRows {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements from a token to the next
  bool is_bf16 = false;
};

struct NormTask {
  ActivationRow x;
  ActivationRow residual;  // data null: none; else updated to residual + x and normed instead of x
  ActivationRow out;
  std::int64_t n = 0;
  const float* weight = nullptr;  // [n] or null
  float eps = 0.0f;
  float offset = 0.0f;
  bool round_to_bf16 = false;  // the normed row, before the product with the weight
};

enum class GateKind : std::uint8_t { silu, gelu_tanh, sigmoid, clamped_swish };
struct GateTask {
  ActivationRow gate;
  ActivationRow up;
  ActivationRow out;
  std::int64_t n = 0;
  GateKind kind = GateKind::silu;
  float limit = 0.0f;
};

// One head's row on its way to the cache: norm, rope, rotation, in float32 without rounding in between.
struct HeadTask {
  ActivationRow x;
  int width = 0;  // a multiple of 16
  bool normed = false;
  const float* weight = nullptr;  // [width] or null
  float eps = 0.0f;
  float offset = 0.0f;
  const float* cos = nullptr;  // [pairs]
  const float* sin = nullptr;
  int pairs = 0;  // 0: no rope
  bool interleaved = false;
  int hadamard_block = 0;  // 0: no rotation, else a power of two >= 16 that divides the width
  float hadamard_norm = 1.0f;
  float* out = nullptr;  // [width]
};

// How many numbers of an encoded row were clipped, and its largest magnitude (a NaN is none).
struct RowNotice {
  std::int64_t saturated = 0;
  float amax = 0.0f;
};

struct RowKernels {
  void (*norm)(const NormTask&);
  void (*gate)(const GateTask&);
  void (*head)(const HeadTask&);
  // cos and sin of position * inv_freq[i], times factor.
  void (*angles)(const float* inv_freq, std::int64_t pairs, float position, float factor, float* cos, float* sin);
  // Codes of row / scale, as kv/codec.h has them; width a multiple of 16.
  RowNotice (*encode_e4m3)(const float* row, int width, float scale, std::uint8_t* codes);
  RowNotice (*encode_e5m2)(const float* row, int width, float scale, std::uint8_t* codes);
  // Codes of row * inverse; magnitudes beyond limit count as clipped.
  RowNotice (*encode_int8)(const float* row, int width, float inverse, float limit, std::uint8_t* codes);
  RowNotice (*encode_bf16)(const float* row, int width, std::uint16_t* numbers);
  RowNotice (*encode_f32)(const float* row, int width, float* numbers);
  // The largest magnitude; NaN if there is one.
  float (*amax)(const float* row, int width);
};

namespace avx512 {
extern const RowKernels kRowKernels;
}
namespace avx2 {
extern const RowKernels kRowKernels;
}

}  // namespace octavo::cpu
