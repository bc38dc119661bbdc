#include <cuda_fp8.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/quantize.h"
#include "cuda/reduce.cuh"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

namespace {

constexpr int kQuantizeThreads = 256;
constexpr int kLanesOfBlock = 16;  // eight numbers each: 128 columns
constexpr int kScaleBlocks = 32;   // at most; they copy the scales of weights
constexpr float kLargest = 448.0f;

struct Rounding {
  const __nv_bfloat16* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t in = 0;
  std::int64_t tokens = 0, padded_tokens = 0;
  const float* static_scale = nullptr;
  uint2* codes = nullptr;
  float* x_scale = nullptr;
};

struct ScaleCopy {
  ScaleSource source[kMaxStacked];
  float* to = nullptr;
  std::int64_t cols = 1, stride = 1;
};

__device__ float amax_of(const float (&numbers)[8]) {
  float amax = 0.0f;
#pragma unroll
  for (const float number : numbers) amax = fmaxf(amax, fabsf(number));
  return amax;
}

__device__ float scale_of(float amax) { return amax > 0.0f ? amax / kLargest : 1.0f; }

__device__ uint2 codes_of(const float (&numbers)[8], float scale) {
  uint2 codes;
  auto* pairs = reinterpret_cast<__nv_fp8x2_storage_t*>(&codes);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pairs[i] = __nv_cvt_float2_to_fp8x2(make_float2(numbers[2 * i] / scale, numbers[2 * i + 1] / scale), __NV_SATFINITE,
                                        __NV_E4M3);
  return codes;
}

__device__ void load_chunk(const __nv_bfloat16* row, std::int64_t chunk, float (&numbers)[8]) {
  unpack_bf16(__ldg(reinterpret_cast<const uint4*>(row) + chunk), numbers);
}

// A scale for the whole row: once through it for the largest, once more, from the cache, for the codes.
__device__ void round_row(const Rounding& work, const __nv_bfloat16* row, std::int64_t token) {
  const std::int64_t chunks = work.in / 8;
  float numbers[8];
  float scale = 0.0f;
  if (work.static_scale != nullptr) {
    scale = *work.static_scale;
  } else {
    float amax = 0.0f;
    for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += kQuantizeThreads) {
      load_chunk(row, chunk, numbers);
      amax = fmaxf(amax, amax_of(numbers));
    }
    scale = scale_of(max_block(amax, 0.0f));
  }
  for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += kQuantizeThreads) {
    load_chunk(row, chunk, numbers);
    work.codes[token * chunks + chunk] = codes_of(numbers, scale);
  }
  if (threadIdx.x == 0) work.x_scale[token] = scale;
}

// Sixteen lanes hold the 128 columns of a scale. `in` is a multiple of 128, so all of them take part or none.
__device__ void round_blocks(const Rounding& work, const __nv_bfloat16* row, std::int64_t token) {
  const std::int64_t chunks = work.in / 8;
  for (std::int64_t first = 0; first < chunks; first += kQuantizeThreads) {
    const std::int64_t chunk = first + threadIdx.x;
    float numbers[8] = {};
    if (chunk < chunks) load_chunk(row, chunk, numbers);
    float amax = amax_of(numbers);
    for (int offset = kLanesOfBlock / 2; offset > 0; offset /= 2)
      amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, offset));
    if (chunk >= chunks) continue;
    const float scale = work.static_scale != nullptr ? *work.static_scale : scale_of(amax);
    work.codes[token * chunks + chunk] = codes_of(numbers, scale);
    if (chunk % kLanesOfBlock == 0) work.x_scale[chunk / kLanesOfBlock * work.padded_tokens + token] = scale;
  }
}

__device__ void pad_row(const Rounding& work, std::int64_t token, bool by_block) {
  const std::int64_t chunks = work.in / 8;
  for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += kQuantizeThreads)
    work.codes[token * chunks + chunk] = make_uint2(0, 0);
  if (!by_block && threadIdx.x == 0) work.x_scale[token] = 1.0f;
  if (!by_block) return;
  for (std::int64_t block = threadIdx.x; block < chunks / kLanesOfBlock; block += kQuantizeThreads)
    work.x_scale[block * work.padded_tokens + token] = 1.0f;
}

__device__ void copy_scales(const ScaleCopy& copy, std::int64_t first, std::int64_t step) {
  float* to = copy.to;
  for (const ScaleSource& source : copy.source) {
    const std::int64_t count = source.rows * copy.stride;
    for (std::int64_t at = first; at < count; at += step) {
      const std::int64_t row = at / copy.stride;
      const std::int64_t column = at % copy.stride;
      if (source.single)
        to[at] = *source.from;
      else
        to[at] = column < copy.cols ? source.from[row * source.stride + column] : 1.0f;
    }
    to += count;
  }
}

// The first blocks take a row of x each, the last ones the scales.
template <bool kByBlock>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_kernel(Rounding work, ScaleCopy copy) {
  const std::int64_t token = blockIdx.x;
  if (token >= work.padded_tokens) {
    const std::int64_t block = token - work.padded_tokens;
    const std::int64_t num_blocks = gridDim.x - work.padded_tokens;
    return copy_scales(copy, block * kQuantizeThreads + threadIdx.x, num_blocks * kQuantizeThreads);
  }
  if (token >= work.tokens) return pad_row(work, token, kByBlock);
  const __nv_bfloat16* row = work.x + token * work.x_stride;
  if constexpr (kByBlock)
    round_blocks(work, row, token);
  else
    round_row(work, row, token);
}

template <class T>
__global__ void __launch_bounds__(kQuantizeThreads)
    finish_kernel(const float* sums, std::int64_t stride, const float* x_scale, const float* weight_scale,
                  const float* bias, Rows<T> to, std::int64_t rows, std::int64_t n) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kQuantizeThreads + threadIdx.x;
  if (at >= rows * n) return;
  const std::int64_t row = at / n;
  const std::int64_t column = at % n;
  float sum = sums[row * stride + column];
  if (x_scale != nullptr) sum *= x_scale[row] * weight_scale[column];
  if (bias != nullptr) sum += bias[column];
  to.row(row)[column] = from_float<T>(sum);
}

}  // namespace

void quantize(cudaStream_t stream, const QuantizeArgs& work) {
  const Rounding rounding{reinterpret_cast<const __nv_bfloat16*>(work.x.raw()),
                          work.x.stride(0),
                          work.x.size(1),
                          work.x.size(0),
                          work.padded_tokens,
                          work.static_scale,
                          reinterpret_cast<uint2*>(work.codes),
                          work.x_scale};
  ScaleCopy copy{.to = work.weight_scale, .cols = work.scale_cols, .stride = work.scale_stride};
  std::int64_t scales = 0;
  for (std::size_t i = 0; i < work.weights.size(); ++i) {
    copy.source[i] = work.weights[i];
    scales += work.weights[i].rows * work.scale_stride;
  }
  const unsigned copying = std::min(blocks_for(scales, kQuantizeThreads), static_cast<unsigned>(kScaleBlocks));
  const unsigned blocks = static_cast<unsigned>(work.padded_tokens) + copying;
  if (work.by_block)
    quantize_kernel<true><<<blocks, kQuantizeThreads, 0, stream>>>(rounding, copy);
  else
    quantize_kernel<false><<<blocks, kQuantizeThreads, 0, stream>>>(rounding, copy);
  check_launch();
}

void finish_sums(cudaStream_t stream, const FinishedSums& work) {
  const std::int64_t rows = work.to.size(0);
  const std::int64_t n = work.to.size(1);
  visit_float(work.to.dtype(), [&](auto type) {
    using T = decltype(type);
    finish_kernel<T><<<blocks_for(rows * n, kQuantizeThreads), kQuantizeThreads, 0, stream>>>(
        work.sums, work.stride, work.x_scale, work.weight_scale, work.bias, rows_of<T>(work.to), rows, n);
  });
  check_launch();
}

}  // namespace octavo::cuda
