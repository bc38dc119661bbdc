// Several numbers of a row at once, where rows are aligned for it: what a kernel that only moves numbers needs to keep
// the memory busy.
#pragma once

#include "cuda/numbers.cuh"

namespace octavo::cuda {

// N numbers of a row at a time, where they are aligned to that.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T values[N];
};
template <class T, int N>
__device__ Pack<T, N>& pack_at(T* row, std::int64_t i) {
  return *reinterpret_cast<Pack<T, N>*>(row + i);
}

// Whether all rows can be read so many numbers at once.
inline bool by_pack(const Tensor& tensor, int numbers) {
  const std::int64_t bytes = dtype_info(tensor.dtype()).block_bytes;
  const auto address =
      reinterpret_cast<std::uintptr_t>(tensor.raw()) | static_cast<std::uintptr_t>(tensor.stride(0) * bytes);
  return tensor.stride(-1) == 1 && tensor.size(-1) % numbers == 0 &&
         address % static_cast<std::uintptr_t>(numbers * bytes) == 0;
}
inline bool by_four(const Tensor& tensor) { return by_pack(tensor, 4); }

}  // namespace octavo::cuda
