#include "base/check.h"
#include "cuda/check.h"
#include "cuda/packs.cuh"
#include "cuda/random_fill.h"

namespace octavo::cuda {

namespace {

constexpr int kFillThreads = 256;
constexpr int kFillBlocks = 4096;

template <class T>
__device__ T random_number(std::uint64_t level);
template <>
__device__ std::uint16_t random_number<std::uint16_t>(std::uint64_t level) {
  return random_bf16(level);
}
template <>
__device__ std::uint8_t random_number<std::uint8_t>(std::uint64_t level) {
  return random_e4m3(level);
}

// A thread makes kCount neighbours at a time: their hashes serve kNumbersPerHash of them.
template <class T, int kCount>
__global__ void __launch_bounds__(kFillThreads) random_kernel(RandomMatrix matrix, T* to) {
  const std::int64_t packs = matrix.rows * matrix.cols / kCount;
  const std::int64_t step = std::int64_t{gridDim.x} * kFillThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; at < packs; at += step) {
    const std::int64_t row = at * kCount / matrix.cols;
    const std::int64_t column = at * kCount % matrix.cols;
    const auto place = static_cast<std::uint64_t>(matrix.first + row * matrix.stride + column);
    Pack<T, kCount> numbers;
    std::uint64_t hash = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i % kNumbersPerHash == 0) hash = random_hash(matrix.key, place + i);
      numbers.values[i] = random_number<T>(random_level(hash, place + i));
    }
    pack_at<T, kCount>(to, at * kCount) = numbers;
  }
}

__global__ void __launch_bounds__(kFillThreads) pairs_kernel(RandomMatrix matrix, std::uint8_t* to) {
  const std::int64_t pairs = matrix.rows * matrix.cols / 2;
  const std::int64_t step = std::int64_t{gridDim.x} * kFillThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; at < pairs; at += step) {
    const auto place =
        static_cast<std::uint64_t>(matrix.first + 2 * at / matrix.cols * matrix.stride + 2 * at % matrix.cols);
    to[at] = random_e2m1_pair(random_hash(matrix.key, place), place);
  }
}

template <class T>
void fill(cudaStream_t stream, std::byte* data, const RandomMatrix& matrix) {
  auto* to = reinterpret_cast<T*>(data);
  const bool by_eight = matrix.cols % 8 == 0 && matrix.first % 8 == 0 && matrix.stride % 8 == 0 &&
                        reinterpret_cast<std::uintptr_t>(data) % (8 * sizeof(T)) == 0;
  if (by_eight)
    random_kernel<T, 8><<<kFillBlocks, kFillThreads, 0, stream>>>(matrix, to);
  else
    random_kernel<T, 1><<<kFillBlocks, kFillThreads, 0, stream>>>(matrix, to);
  check_launch();
}

}  // namespace

void fill_random(cudaStream_t stream, std::byte* to, const RandomMatrix& matrix) {
  if (matrix.rows == 0 || matrix.cols == 0) return;
  if (matrix.dtype == DType::bf16) return fill<std::uint16_t>(stream, to, matrix);
  if (matrix.dtype == DType::e2m1) {
    pairs_kernel<<<kFillBlocks, kFillThreads, 0, stream>>>(matrix, reinterpret_cast<std::uint8_t*>(to));
    return check_launch();
  }
  octavo::check(matrix.dtype == DType::e4m3, "random numbers are bf16, e4m3 or e2m1");
  fill<std::uint8_t>(stream, to, matrix);
}

}  // namespace octavo::cuda
