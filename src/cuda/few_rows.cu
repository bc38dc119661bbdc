#include <algorithm>

#include "cuda/check.h"
#include "cuda/early_start.cuh"
#include "cuda/few_rows.cuh"
#include "cuda/kernel_rows.h"

namespace octavo::cuda {

namespace {

// Small blocks: the work of a matrix of a few thousand rows then spreads evenly over the multiprocessors.
constexpr int kFewRowsThreads = 128;
constexpr int kFewRowsWarps = kFewRowsThreads / 32;

__device__ float sum_of_warp(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

// Has the weight's first bytes brought into L2: a weight is never written, so this need not wait for the kernel before.
__device__ void fetch_ahead(const std::byte* row, std::int64_t bytes) {
  constexpr int kLine = 128;
  for (std::int64_t at = threadIdx.x % 32 * kLine; at < min(bytes, std::int64_t{32 * kLine}); at += 32 * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
}

// kTokens rows of x (those beyond `tokens` repeat the last and are not stored); a warp makes kRows numbers of each, so
// that a number of x is loaded once for all of them. kAhead chunks of a row are on their way at once.
template <DType kDtype, int kTokens, int kRows, int kAhead>
__global__ void __launch_bounds__(kFewRowsThreads)
    few_rows_kernel(const __grid_constant__ PartStack stack, Rows<const __nv_bfloat16> x, int tokens,
                    RowsResult result) {
  const int which = stack.part_of(blockIdx.x);
  const PartView part = stack.part[which];
  const std::int64_t column = stack.column[which];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first =
      (std::int64_t{blockIdx.x - stack.first_block[which]} * kFewRowsWarps + threadIdx.x / 32) * kRows;
  if (first < part.rows) fetch_ahead(part.row(first), part.row_bytes);
  let_next_start();
  wait_for_kernels_before();
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
      unpack_bf16(reinterpret_cast<const uint4*>(x.data + min(t, tokens - 1) * x.stride)[chunk], numbers);
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
      if (lane == 0 && t < tokens && first + r < part.rows) result.put(t, column + first + r, sum);
    }
}

// Of one token: blocks of 256 numbers take more loads and registers a chunk.
template <DType kDtype>
constexpr int kChunksAhead = dtype_info(kDtype).block_elems == 256 ? 4 : 8;

// Starts while the kernel before still runs, and waits for it where it must.
template <DType kDtype, int kTokens, int kRows, int kAhead>
void launch_few(cudaStream_t stream, const RowsProduct& product) {
  const PartStack stack = stack_of(product.parts, kRows * kFewRowsWarps);
  launch_early(stream, stack.blocks, kFewRowsThreads, 0, few_rows_kernel<kDtype, kTokens, kRows, kAhead>, stack,
               rows_of<const __nv_bfloat16>(product.x), static_cast<int>(product.x.size(0)), result_of(product));
}

template <DType kDtype>
void launch_few(cudaStream_t stream, const RowsProduct& product) {
  const std::int64_t tokens = product.x.size(0);
  if (tokens == 1) return launch_few<kDtype, 1, 1, kChunksAhead<kDtype>>(stream, product);
  tokens <= 4 ? launch_few<kDtype, 4, 2, 2>(stream, product) : launch_few<kDtype, 8, 2, 2>(stream, product);
}

// A warp a number.
template <class T>
__global__ void __launch_bounds__(kFewRowsThreads) any_rows_kernel(PartView part, Rows<const T> x, RowsResult result) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * kFewRowsWarps + threadIdx.x / 32;
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
  made.row.threads = kFewRowsThreads;
  made.function = reinterpret_cast<const void*>(few_rows_kernel<kDtype, kTokens, kRows, kAhead>);
  return made;
}

template <DType... kDtypes>
std::vector<KernelEntry> entries() {
  std::vector<KernelEntry> made;
  (made.insert(made.end(),
               {entry<kDtypes, 1, 1, kChunksAhead<kDtypes>>(), entry<kDtypes, 4, 2, 2>(), entry<kDtypes, 8, 2, 2>()}),
   ...);
  return made;
}

}  // namespace

std::vector<KernelEntry> few_rows_kernels() {
  using enum DType;
  return entries<bf16, f16, f32, e4m3, e5m2, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k>();
}

bool takes_few_rows(const Tensor& x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x.raw());
  return x.size(0) <= kMaxFewRows && x.dtype() == DType::bf16 && address % 16 == 0 && x.stride(0) % 8 == 0;
}

bool takes_few_rows(const WeightPart& part) { return loads_by_eight(view_of(part)); }

std::string_view few_rows_kind(std::int64_t rows, const WeightPart& part) {
  return takes_one_row(rows, part) ? "one_row" : takes_tile_rows(rows, part) ? "tile_rows" : "few_rows";
}

void few_rows(cudaStream_t stream, const RowsProduct& product) {
  const auto all_of_kind = [&](std::string_view kind) {
    return std::all_of(product.parts.begin(), product.parts.end(),
                       [&](const WeightPart& part) { return few_rows_kind(product.x.size(0), part) == kind; });
  };
  if (all_of_kind("one_row")) return one_row(stream, product);
  if (all_of_kind("tile_rows")) return tile_rows(stream, product);
  switch (product.parts.front().values.dtype()) {
    case DType::bf16:
      return launch_few<DType::bf16>(stream, product);
    case DType::f16:
      return launch_few<DType::f16>(stream, product);
    case DType::f32:
      return launch_few<DType::f32>(stream, product);
    case DType::e4m3:
      return launch_few<DType::e4m3>(stream, product);
    case DType::e5m2:
      return launch_few<DType::e5m2>(stream, product);
    case DType::q4_0:
      return launch_few<DType::q4_0>(stream, product);
    case DType::q4_1:
      return launch_few<DType::q4_1>(stream, product);
    case DType::q5_0:
      return launch_few<DType::q5_0>(stream, product);
    case DType::q5_1:
      return launch_few<DType::q5_1>(stream, product);
    case DType::q8_0:
      return launch_few<DType::q8_0>(stream, product);
    case DType::q4_k:
      return launch_few<DType::q4_k>(stream, product);
    case DType::q5_k:
      return launch_few<DType::q5_k>(stream, product);
    case DType::q6_k:
      return launch_few<DType::q6_k>(stream, product);
    default:
      octavo::check(false, "no weight is stored in this dtype");
  }
}

void any_rows(cudaStream_t stream, const RowsProduct& product) {
  octavo::check(product.x.size(0) <= 65535, "more rows than one launch takes");
  std::int64_t column = 0;
  for (const WeightPart& stored : product.parts) {
    const PartView part = view_of(stored);
    const RowsResult result = result_of({product.x,
                                         {},
                                         product.bias.empty() ? Tensor() : product.bias.rows(column, part.rows),
                                         product.out.columns(column, part.rows)});
    const dim3 grid(blocks_for(part.rows, kFewRowsWarps), static_cast<unsigned>(product.x.size(0)));
    visit_float(product.x.dtype(), [&](auto type) {
      using T = decltype(type);
      any_rows_kernel<T><<<grid, kFewRowsThreads, 0, stream>>>(part, rows_of<const T>(product.x), result);
    });
    column += part.rows;
  }
  check_launch();
}

}  // namespace octavo::cuda
