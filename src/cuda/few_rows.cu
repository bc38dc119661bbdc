#include "cuda/check.h"
#include "cuda/few_rows.h"
#include "cuda/kernel_rows.h"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

namespace {

// Small blocks: the work of a matrix of a few thousand rows then spreads evenly over the multiprocessors.
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

struct Result {
  void* data = nullptr;
  const float* bias = nullptr;
  std::int64_t stride = 0;
  bool bf16 = false;

  __device__ void put(std::int64_t row, std::int64_t i, float value) const {
    if (bias != nullptr) value += bias[i];
    if (bf16)
      static_cast<__nv_bfloat16*>(data)[row * stride + i] = __float2bfloat16_rn(value);
    else
      static_cast<float*>(data)[row * stride + i] = value;
  }
};

Result result_of(const RowsProduct& product) {
  octavo::check(product.out.dtype() == DType::bf16 || product.out.dtype() == DType::f32,
                "a product's result is bf16 or f32");
  return {product.out.raw(), floats(product.bias), product.out.stride(0), product.out.dtype() == DType::bf16};
}

__device__ float sum_of_warp(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

// kTokens rows of x (those beyond `tokens` repeat the last and are not stored); a warp makes kRows numbers of each, so
// that a number of x is loaded once for all of them. kAhead chunks of a row are on their way at once.
template <DType kDtype, int kTokens, int kRows, int kAhead>
__global__ void __launch_bounds__(kThreads)
    few_rows_kernel(PartView part, Rows<const __nv_bfloat16> x, int tokens, Result result) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kRows;
  if (first >= part.rows) return;
  std::int64_t row[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) row[r] = min(first + r, part.rows - 1);
  float sums[kTokens][kRows] = {};
#pragma unroll kAhead
  for (std::int64_t chunk = lane; chunk < part.in / 8; chunk += 32) {
    float w[kRows][8];
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_eight<kDtype>(part.row(row[r]), chunk, w[r]);
    if (part.grain == ScaleGrain::block) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float scale = part.scale_at(row[r], chunk * 8);
#pragma unroll
        for (int i = 0; i < 8; ++i) w[r][i] *= scale;
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float numbers[8];
      unpack_bf16(__ldg(reinterpret_cast<const uint4*>(x.data + min(t, tokens - 1) * x.stride) + chunk), numbers);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[t][r] = fmaf(numbers[i], w[r][i], sums[t][r]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sum = sum_of_warp(sums[t][r]);
      if (part.grain != ScaleGrain::block) sum *= part.scale_at(row[r], 0);
      if (lane == 0 && t < tokens && first + r < part.rows) result.put(t, first + r, sum);
    }
}

template <DType kDtype>
void launch_few(cudaStream_t stream, const PartView& part, const Rows<const __nv_bfloat16>& x, int tokens,
                const Result& result) {
  if (tokens == 1)
    few_rows_kernel<kDtype, 1, 1, 8><<<blocks_for(part.rows, kWarps), kThreads, 0, stream>>>(part, x, tokens, result);
  else if (tokens <= 4)
    few_rows_kernel<kDtype, 4, 2, 2>
        <<<blocks_for(part.rows, 2 * kWarps), kThreads, 0, stream>>>(part, x, tokens, result);
  else
    few_rows_kernel<kDtype, 8, 2, 2>
        <<<blocks_for(part.rows, 2 * kWarps), kThreads, 0, stream>>>(part, x, tokens, result);
  check_launch();
}

// A warp a number.
template <class T>
__global__ void __launch_bounds__(kThreads) any_rows_kernel(PartView part, Rows<const T> x, Result result) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= part.rows) return;
  float sum = 0.0f;
  for (std::int64_t i = lane; i < part.in; i += 32)
    sum = fmaf(to_float(x.row(blockIdx.y)[i]), number_at(part, row, i) * part.scale_at(row, i), sum);
  sum = sum_of_warp(sum);
  if (lane == 0) result.put(blockIdx.y, row, sum);
}

template <DType kDtype, int kTokens, int kRows, int kAhead>
KernelEntry entry() {
  KernelEntry made;
  made.row.name = "linear.few_rows." + std::string(dtype_info(kDtype).name) + ".t" + std::to_string(kTokens);
  made.row.phase = KernelPhase::linear;
  made.row.weight = kDtype;
  made.row.max_tokens = kTokens;
  made.row.threads = kThreads;
  made.function = reinterpret_cast<const void*>(few_rows_kernel<kDtype, kTokens, kRows, kAhead>);
  return made;
}

template <DType... kDtypes>
std::vector<KernelEntry> entries() {
  std::vector<KernelEntry> made;
  (made.insert(made.end(), {entry<kDtypes, 1, 1, 8>(), entry<kDtypes, 4, 2, 2>(), entry<kDtypes, 8, 2, 2>()}), ...);
  return made;
}

}  // namespace

std::vector<KernelEntry> few_rows_kernels() {
  using enum DType;
  return entries<bf16, f16, f32, e4m3, e5m2, q4_0, q4_1, q8_0>();
}

bool takes_few_rows(const RowsProduct& product) {
  const auto address = reinterpret_cast<std::uintptr_t>(product.x.raw());
  return product.x.size(0) <= kMaxFewRows && product.x.dtype() == DType::bf16 && address % 16 == 0 &&
         product.x.stride(0) % 8 == 0 && loads_by_eight(view_of(product.part));
}

void few_rows(cudaStream_t stream, const RowsProduct& product) {
  const PartView part = view_of(product.part);
  const Rows<const __nv_bfloat16> x = rows_of<const __nv_bfloat16>(product.x);
  const int tokens = static_cast<int>(product.x.size(0));
  const Result result = result_of(product);
  switch (part.dtype) {
    case DType::bf16:
      return launch_few<DType::bf16>(stream, part, x, tokens, result);
    case DType::f16:
      return launch_few<DType::f16>(stream, part, x, tokens, result);
    case DType::f32:
      return launch_few<DType::f32>(stream, part, x, tokens, result);
    case DType::e4m3:
      return launch_few<DType::e4m3>(stream, part, x, tokens, result);
    case DType::e5m2:
      return launch_few<DType::e5m2>(stream, part, x, tokens, result);
    case DType::q4_0:
      return launch_few<DType::q4_0>(stream, part, x, tokens, result);
    case DType::q4_1:
      return launch_few<DType::q4_1>(stream, part, x, tokens, result);
    case DType::q8_0:
      return launch_few<DType::q8_0>(stream, part, x, tokens, result);
    default:
      octavo::check(false, "no weight is stored in this dtype");
  }
}

void any_rows(cudaStream_t stream, const RowsProduct& product) {
  octavo::check(product.x.size(0) <= 65535, "more rows than one launch takes");
  const PartView part = view_of(product.part);
  const dim3 grid(blocks_for(part.rows, kWarps), static_cast<unsigned>(product.x.size(0)));
  visit_float(product.x.dtype(), [&](auto type) {
    using T = decltype(type);
    any_rows_kernel<T><<<grid, kThreads, 0, stream>>>(part, rows_of<const T>(product.x), result_of(product));
  });
  check_launch();
}

}  // namespace octavo::cuda
