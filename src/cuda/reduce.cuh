// Sums and maxima over a block, in an order that is always the same. Every thread must call; all get the result.
#pragma once

namespace octavo::cuda {

constexpr int kMaxWarps = 32;

template <class T, class Combine>
__device__ T reduce_block(T value, T neutral, Combine combine) {
  __shared__ T parts[kMaxWarps];
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // an earlier call's parts are read
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  value = lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : neutral;
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

template <class T>
__device__ T sum_block(T value) {
  return reduce_block(value, T{}, [](T a, T b) { return a + b; });
}

template <class T>
__device__ T max_block(T value, T lowest) {
  return reduce_block(value, lowest, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace octavo::cuda
