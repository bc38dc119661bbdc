// Products of one row with weights in bf16 and e4m3: what a step of one sequence spends its time on. A block makes two
// numbers, of e4m3 four; its eight warps split the row. Registers are few so that eight blocks fit a multiprocessor,
// five of e4m3: their loads together keep the memory busy, and the next blocks' fill the gap that each leaves when it
// ends.
//
// What is loaded first is asked for before the kernel before has ended: a weight is never written.
#include "cuda/early_start.cuh"
#include "cuda/few_rows.cuh"
#include "cuda/kernel_rows.h"

namespace octavo::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <DType kDtype>
constexpr int kNumbers = kDtype == DType::bf16 ? 8 : 16;  // in a thread's 16 bytes
template <DType kDtype>
constexpr int kRows = kDtype == DType::bf16 ? 2 : 4;  // of the weight, a block
template <DType kDtype>
constexpr int kRegisters = kDtype == DType::bf16 ? 32 : 48;  // what eight and five blocks leave

__device__ void unpack_codes(std::uint32_t low, std::uint32_t high, float (&to)[8]) {
  const std::uint32_t words[2] = {low, high};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto codes = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> 16 * (i % 2));
    const float2 numbers = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3)));
    to[2 * i] = numbers.x;
    to[2 * i + 1] = numbers.y;
  }
}

// The sums over a thread's numbers of all rows; x is what the row's numbers are multiplied by.
template <DType kDtype>
__device__ void add_products(const uint4 (&held)[kRows<kDtype>], const __nv_bfloat16* x, float (&sums)[kRows<kDtype>]) {
#pragma unroll
  for (int piece = 0; piece < kNumbers<kDtype> / 8; ++piece) {
    float numbers[8];
    unpack_bf16(reinterpret_cast<const uint4*>(x)[piece], numbers);
#pragma unroll
    for (int r = 0; r < kRows<kDtype>; ++r) {
      float w[8];
      if constexpr (kDtype == DType::bf16)
        unpack_bf16(held[r], w);
      else
        piece == 0 ? unpack_codes(held[r].x, held[r].y, w) : unpack_codes(held[r].z, held[r].w, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[r] = fmaf(numbers[i], w[i], sums[r]);
    }
  }
}

template <DType kDtype>
__global__ void __maxnreg__(kRegisters<kDtype>)
    one_row_kernel(const __grid_constant__ PartStack stack, const __nv_bfloat16* x, RowsResult result) {
  constexpr int kMade = kRows<kDtype>;
  __shared__ float shared[kWarps][kMade];
  const int which = stack.part_of(blockIdx.x);
  const PartView& part = stack.part[which];
  const int first = static_cast<int>(blockIdx.x - stack.first_block[which]) * kMade;
  const int last = static_cast<int>(part.rows) - 1 - first;  // row of the block that the part has
  const std::byte* row = part.row(first) + 16 * threadIdx.x;
  int left = static_cast<int>(part.in) / kNumbers<kDtype> - static_cast<int>(threadIdx.x);  // pieces from here on
  uint4 held[kMade];
  const auto ask = [&] {
#pragma unroll
    for (int r = 0; r < kMade; ++r) held[r] = load_streamed(row + min(r, last) * static_cast<int>(part.row_bytes));
  };
  if (left > 0) ask();
  let_next_start();
  wait_for_kernels_before();
  x += threadIdx.x * kNumbers<kDtype>;
  float sums[kMade] = {};
#pragma unroll 1
  while (left > 0) {
    add_products<kDtype>(held, x, sums);
    left -= kThreads;
    row += 16 * kThreads;
    x += kThreads * kNumbers<kDtype>;
    if (left > 0) ask();
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
    for (int r = 0; r < kMade; ++r) sums[r] += __shfl_xor_sync(~0u, sums[r], offset);
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int r = 0; r < kMade; ++r) shared[threadIdx.x / 32][r] = sums[r];
  __syncthreads();
  const int r = static_cast<int>(threadIdx.x);
  if (r >= kMade || r > last) return;
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += shared[w][r];
  result.put(0, stack.column[which] + first + r, sum * part.scale_at(first + r, 0));
}

template <DType kDtype>
void launch_one(cudaStream_t stream, const RowsProduct& product) {
  const PartStack stack = stack_of(product.parts, kRows<kDtype>);
  launch_early(stream, stack.blocks, kThreads, 0, one_row_kernel<kDtype>, stack,
               reinterpret_cast<const __nv_bfloat16*>(product.x.raw()), result_of(product));
}

template <DType kDtype>
KernelEntry one_row_entry() {
  KernelEntry made;
  made.row.name = "linear.one_row." + std::string(dtype_info(kDtype).name);
  made.row.phase = KernelPhase::linear;
  made.row.weight = kDtype;
  made.row.max_tokens = 1;
  made.row.threads = kThreads;
  made.function = reinterpret_cast<const void*>(one_row_kernel<kDtype>);
  return made;
}

}  // namespace

std::vector<KernelEntry> one_row_kernels() { return {one_row_entry<DType::bf16>(), one_row_entry<DType::e4m3>()}; }

bool takes_one_row(std::int64_t rows, const WeightPart& part) {
  const PartView view = view_of(part);
  if (rows != 1 || view.grain == ScaleGrain::block || !loads_by_eight(view)) return false;
  return view.dtype == DType::bf16 || (view.dtype == DType::e4m3 && view.in % 16 == 0);
}

void one_row(cudaStream_t stream, const RowsProduct& product) {
  product.parts.front().values.dtype() == DType::bf16 ? launch_one<DType::bf16>(stream, product)
                                                      : launch_one<DType::e4m3>(stream, product);
}

}  // namespace octavo::cuda
