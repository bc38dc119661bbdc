#include "cuda/check.h"
#include "cuda/unpack.h"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

namespace {

constexpr int kUnpackThreads = 256;

__global__ void __launch_bounds__(kUnpackThreads)
    unpack_kernel(PartView part, std::int64_t first, std::int64_t count, __nv_bfloat16* to) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kUnpackThreads + threadIdx.x;
  if (at >= count * part.in) return;
  const std::int64_t row = first + at / part.in;
  const std::int64_t i = at % part.in;
  to[at] = __float2bfloat16_rn(number_at(part, row, i) * part.scale_at(row, i));
}

template <DType kDtype>
__global__ void __launch_bounds__(kUnpackThreads)
    unpack_eight_kernel(PartView part, std::int64_t first, std::int64_t count, uint4* to) {
  const std::int64_t chunks = part.in / 8;
  const std::int64_t at = std::int64_t{blockIdx.x} * kUnpackThreads + threadIdx.x;
  if (at >= count * chunks) return;
  const std::int64_t row = first + at / chunks;
  float numbers[8];
  load_eight<kDtype>(part.row(row), at % chunks, numbers);
  const float scale = part.scale_at(row, at % chunks * 8);
  __nv_bfloat162 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(numbers[2 * i] * scale, numbers[2 * i + 1] * scale);
  to[at] = *reinterpret_cast<const uint4*>(pairs);
}

}  // namespace

void unpack_rows(cudaStream_t stream, const WeightPart& weight, std::int64_t first, std::int64_t count, std::byte* to) {
  const PartView part = view_of(weight);
  const unsigned blocks = blocks_for(count * part.in / 8, kUnpackThreads);
  auto* eights = reinterpret_cast<uint4*>(to);
  const bool by_eight = loads_by_eight(part);
  if (by_eight && part.dtype == DType::q4_0)
    unpack_eight_kernel<DType::q4_0><<<blocks, kUnpackThreads, 0, stream>>>(part, first, count, eights);
  else if (by_eight && part.dtype == DType::q4_1)
    unpack_eight_kernel<DType::q4_1><<<blocks, kUnpackThreads, 0, stream>>>(part, first, count, eights);
  else if (by_eight && part.dtype == DType::q8_0)
    unpack_eight_kernel<DType::q8_0><<<blocks, kUnpackThreads, 0, stream>>>(part, first, count, eights);
  else if (by_eight && part.dtype == DType::e4m3)
    unpack_eight_kernel<DType::e4m3><<<blocks, kUnpackThreads, 0, stream>>>(part, first, count, eights);
  else
    unpack_kernel<<<blocks_for(count * part.in, kUnpackThreads), kUnpackThreads, 0, stream>>>(
        part, first, count, reinterpret_cast<__nv_bfloat16*>(to));
  check_launch();
}

}  // namespace octavo::cuda
