// Numbers of a weight's part on the device, at their exact values: one at a time for any shape, eight at a time for
// kernels whose rows are aligned.
#pragma once

#include <cuda_fp8.h>

#include "cuda/numbers.cuh"
#include "cuda/packed_numbers.cuh"
#include "tensor/float8.h"
#include "tensor/weight.h"

namespace octavo::cuda {

struct PartView {
  const std::byte* values = nullptr;
  const float* scale = nullptr;
  std::int64_t rows = 0, in = 0;
  std::int64_t row_bytes = 0;
  std::int64_t scale_stride = 0;
  int block_rows = 0, block_cols = 0;               // of scales
  std::int16_t packed_bytes = 0, packed_elems = 0;  // of a block type's block; dtype_info() is no device code
  DType dtype = DType::bf16;
  ScaleGrain grain = ScaleGrain::none;

  __device__ const std::byte* row(std::int64_t i) const { return values + i * row_bytes; }

  // What the numbers from `column` to the edge of its block are multiplied by.
  __device__ float scale_at(std::int64_t i, std::int64_t column) const {
    switch (grain) {
      case ScaleGrain::none:
        return 1.0f;
      case ScaleGrain::tensor:
        return scale[0];
      case ScaleGrain::channel:
        return scale[i];
      case ScaleGrain::block:
        return scale[i / block_rows * scale_stride + column / block_cols];
    }
    return 1.0f;
  }
};

inline PartView view_of(const WeightPart& part) {
  PartView view;
  view.values = part.values.raw();
  view.rows = part.values.size(0);
  view.in = part.values.size(1);
  view.row_bytes = dtype_bytes(part.values.dtype(), part.values.stride(0));
  view.dtype = part.values.dtype();
  const DTypeInfo info = dtype_info(view.dtype);
  view.packed_bytes = static_cast<std::int16_t>(info.block_bytes);
  view.packed_elems = static_cast<std::int16_t>(info.block_elems);
  view.grain = part.grain;
  if (part.grain == ScaleGrain::none) return view;
  octavo::check(part.scale.dtype() == DType::f32, "a weight's scales are f32");
  view.scale = part.scale.data<float>();
  view.scale_stride = part.scale.rank() == 2 ? part.scale.stride(0) : 1;
  view.block_rows = part.block_rows;
  view.block_cols = part.block_cols;
  return view;
}

// Before its scale.
__device__ inline float number_at(const PartView& part, std::int64_t row, std::int64_t i) {
  const std::byte* from = part.row(row);
  switch (part.dtype) {
    case DType::f32:
      return load_as<float>(from, i);
    case DType::bf16:
      return to_float(load_as<__nv_bfloat16>(from, i));
    case DType::f16:
      return to_float(load_as<__half>(from, i));
    case DType::e4m3:
      return f32_from_e4m3(load_as<std::uint8_t>(from, i));
    case DType::e5m2:
      return f32_from_e5m2(load_as<std::uint8_t>(from, i));
    case DType::e2m1:
      return f32_from_e2m1(load_as<std::uint8_t>(from, i / 2) >> (i % 2 * 4) & 15);
    default:
      return packed_number(from + i / part.packed_elems * part.packed_bytes, part.dtype,
                           static_cast<int>(i % part.packed_elems));
  }
}

__device__ inline void unpack_bf16(uint4 bits, float (&to)[8]) {
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
}

// Eight numbers from column 8 * chunk on, before their scale. Rows are aligned to 16 bytes, or packed.
template <DType kDtype>
__device__ inline void load_eight(const std::byte* row, std::int64_t chunk, float (&to)[8]) {
  if constexpr (kDtype == DType::bf16) {
    unpack_bf16(__ldcs(reinterpret_cast<const uint4*>(row) + chunk), to);
  } else if constexpr (kDtype == DType::f16) {
    const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(row) + chunk);
    const auto* pairs = reinterpret_cast<const __half2*>(&bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(pairs[i]);
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  } else if constexpr (kDtype == DType::f32) {
    const float4 a = __ldcs(reinterpret_cast<const float4*>(row) + 2 * chunk);
    const float4 b = __ldcs(reinterpret_cast<const float4*>(row) + 2 * chunk + 1);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
  } else if constexpr (kDtype == DType::e4m3 || kDtype == DType::e5m2) {
    const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(row) + chunk);
    const auto* codes = reinterpret_cast<const __nv_fp8x2_storage_t*>(&bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2(codes[i], kDtype == DType::e4m3 ? __NV_E4M3 : __NV_E5M2);
      const float2 numbers = __half22float2(__half2(pair));
      to[2 * i] = numbers.x;
      to[2 * i + 1] = numbers.y;
    }
  } else {
    constexpr DTypeInfo kInfo = dtype_info(kDtype);
    constexpr int kChunks = kInfo.block_elems / 8;
    packed_eight<kDtype>(row + chunk / kChunks * kInfo.block_bytes, static_cast<int>(chunk % kChunks) * 8, to);
  }
}

// Whether load_eight() serves this part.
inline bool loads_by_eight(const PartView& part) {
  if (part.dtype == DType::e2m1) return false;
  if (is_block_type(part.dtype)) return true;
  const auto address = reinterpret_cast<std::uintptr_t>(part.values) | static_cast<std::uintptr_t>(part.row_bytes);
  return part.in % 8 == 0 && address % 16 == 0 && (part.grain != ScaleGrain::block || part.block_cols % 8 == 0);
}

}  // namespace octavo::cuda
