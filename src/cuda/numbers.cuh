// Numbers of activations on the device: views of strided rows as plain data, and loads and stores as float32, nearest
// even. The types of a kernel are chosen on the host by visit_float().
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "tensor/tensor.h"

namespace octavo::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// Rows of T, `stride` elements apart; elements of a row `step` apart.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t step = 1;

  __device__ T* row(std::int64_t i) const { return data + i * stride; }
};
template <class T>
Rows<T> rows_of(const Tensor& tensor) {
  return {reinterpret_cast<T*>(tensor.raw()), tensor.stride(0), tensor.stride(-1)};
}

// Calls visit(T{}) with the type of an activation's dtype.
template <class Visit>
void visit_float(DType dtype, const Visit& visit) {
  if (dtype == DType::bf16) return visit(__nv_bfloat16{});
  octavo::check(dtype == DType::f32, "activations are bf16 or f32");
  visit(float{});
}

inline unsigned blocks_for(std::int64_t count, int per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

// Of a grid's second or third dimension, which takes no more: where there are more rows, each block has several.
inline unsigned grid_rows(std::int64_t rows) { return static_cast<unsigned>(std::min<std::int64_t>(rows, 65535)); }

inline const std::int32_t* ints(const Tensor& tensor) {
  octavo::check(tensor.empty() || (tensor.dtype() == DType::i32 && tensor.contiguous()),
                "expected contiguous i32 numbers");
  return tensor.data<std::int32_t>();
}
inline const float* floats(const Tensor& tensor) {
  octavo::check(tensor.empty() || (tensor.dtype() == DType::f32 && tensor.contiguous()),
                "expected contiguous f32 numbers");
  return tensor.data<float>();
}

}  // namespace octavo::cuda
