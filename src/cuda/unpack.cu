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

struct Unpacking {
  PartView part;
  std::int64_t first, count;
  __nv_bfloat16* to;
};

template <DType kDtype>
bool unpack_eights(cudaStream_t stream, const Unpacking& work) {
  if (work.part.dtype != kDtype) return false;
  const unsigned blocks = blocks_for(work.count * work.part.in / 8, kUnpackThreads);
  unpack_eight_kernel<kDtype>
      <<<blocks, kUnpackThreads, 0, stream>>>(work.part, work.first, work.count, reinterpret_cast<uint4*>(work.to));
  return true;
}

template <DType... kDtypes>
bool unpack_any_eights(cudaStream_t stream, const Unpacking& work) {
  return (unpack_eights<kDtypes>(stream, work) || ...);
}

}  // namespace

void unpack_rows(cudaStream_t stream, const WeightPart& weight, std::int64_t first, std::int64_t count, std::byte* to) {
  using enum DType;
  const Unpacking work{view_of(weight), first, count, reinterpret_cast<__nv_bfloat16*>(to)};
  const bool by_eight = loads_by_eight(work.part) &&
                        unpack_any_eights<e4m3, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k>(stream, work);
  if (!by_eight)
    unpack_kernel<<<blocks_for(count * work.part.in, kUnpackThreads), kUnpackThreads, 0, stream>>>(work.part, first,
                                                                                                   count, work.to);
  check_launch();
}

}  // namespace octavo::cuda
