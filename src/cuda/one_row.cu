// Products of one row with weights in bf16 and e4m3: what a step of one sequence spends its time on. A block makes two
// numbers, of e4m3 four; its eight warps split the row. Registers are few so that eight blocks fit a multiprocessor,
// five of e4m3: their loads together keep the memory busy, and the next blocks' fill the gap that each leaves when it
// ends.
//
// What is loaded first is asked for before the kernel before has ended: a weight is never written.
#include <tuple>

#include "cuda/activation.cuh"
#include "cuda/early_start.cuh"
#include "cuda/few_rows.cuh"
#include "cuda/kernel_rows.h"

namespace octavo::cuda {

namespace {

constexpr int kOneRowThreads = 256;
constexpr int kOneRowWarps = kOneRowThreads / 32;

template <DType kDtype>
constexpr int kNumbers = kDtype == DType::bf16 ? 8 : 16;  // in a thread's 16 bytes
template <DType kDtype>
constexpr int kRows = kDtype == DType::bf16 ? 2 : 4;  // of the weight, a block
template <DType kDtype>
constexpr int kRegisters = kDtype == DType::bf16 ? 32 : 48;  // what eight and five blocks leave

struct GatedParts {
  PartView gate, up;  // alike in all but where they lie and their scales
  Activation kind = Activation::silu;
  float limit = 0.0f;
};

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

// Sums over a warp's lanes of kMade numbers each: lanes part the numbers among themselves as long as there are several.
// Lane l ends with the sum of number l / (32 / kMade).
template <int kMade>
__device__ float sum_of_lanes(float (&sums)[kMade]) {
  static_assert(kMade == 2 || kMade == 4);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int left = kMade, offset = 16;
#pragma unroll
  for (; left > 1; left /= 2, offset /= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int r = 0; r < left / 2; ++r) {
      const float given = upper ? sums[r] : sums[r + left / 2];
      const float kept = upper ? sums[r + left / 2] : sums[r];
      sums[r] = kept + __shfl_xor_sync(~0u, given, offset);
    }
  }
#pragma unroll
  for (; offset > 0; offset /= 2) sums[0] += __shfl_xor_sync(~0u, sums[0], offset);
  return sums[0];
}

// The sums of a block's rows, by warps; ask(held, at) asks for the thread's piece of each row from that byte on.
template <DType kDtype, class Ask>
__device__ void sum_rows(std::int64_t in, const __nv_bfloat16* x, float (&shared)[kOneRowWarps][kRows<kDtype>],
                         const Ask& ask) {
  constexpr int kMade = kRows<kDtype>, kLanes = 32 / kMade;
  int left = static_cast<int>(in) / kNumbers<kDtype> - static_cast<int>(threadIdx.x);  // pieces from here on
  int at = 16 * static_cast<int>(threadIdx.x);
  uint4 held[kMade];
  if (left > 0) ask(held, at);
  let_next_start();
  wait_for_kernels_before();
  x += threadIdx.x * kNumbers<kDtype>;
  float sums[kMade] = {};
#pragma unroll 1
  while (left > 0) {
    add_products<kDtype>(held, x, sums);
    left -= kOneRowThreads;
    at += 16 * kOneRowThreads;
    x += kOneRowThreads * kNumbers<kDtype>;
    if (left > 0) ask(held, at);
  }
  const float of_lanes = sum_of_lanes(sums);
  if (threadIdx.x % kLanes == 0) shared[threadIdx.x / 32][threadIdx.x % 32 / kLanes] = of_lanes;
  __syncthreads();
}

template <int kMade>
__device__ float sum_of_warps(const float (&shared)[kOneRowWarps][kMade], int r) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kOneRowWarps; ++w) sum += shared[w][r];
  return sum;
}

template <DType kDtype>
__global__ void __maxnreg__(kRegisters<kDtype>)
    one_row_kernel(const __grid_constant__ PartStack stack, const __nv_bfloat16* x, RowsResult result) {
  constexpr int kMade = kRows<kDtype>;
  __shared__ float shared[kOneRowWarps][kMade];
  const int which = stack.part_of(blockIdx.x);
  const PartView& part = stack.part[which];
  const int first = static_cast<int>(blockIdx.x - stack.first_block[which]) * kMade;
  const int last = static_cast<int>(part.rows) - 1 - first;  // row of the block that the part has
  const std::byte* row = part.row(first);
  sum_rows<kDtype>(part.in, x, shared, [&](uint4(&held)[kMade], int at) {
#pragma unroll
    for (int r = 0; r < kMade; ++r) held[r] = load_streamed(row + min(r, last) * static_cast<int>(part.row_bytes) + at);
  });
  const int r = static_cast<int>(threadIdx.x);
  if (r >= kMade || r > last) return;
  result.put(0, stack.column[which] + first + r, sum_of_warps(shared, r) * part.scale_at(first + r, 0));
}

// Half of a block's rows are the gate's, the other half those of what it gates. Both are rounded as if they were
// stored.
template <DType kDtype>
__global__ void __maxnreg__(kRegisters<kDtype>)
    gated_row_kernel(const __grid_constant__ GatedParts parts, const __nv_bfloat16* x, const float* bias,
                     __nv_bfloat16* out) {
  constexpr int kMade = kRows<kDtype>, kHalf = kMade / 2;
  __shared__ float shared[kOneRowWarps][kMade];
  const int first = static_cast<int>(blockIdx.x) * kHalf;
  const int last = static_cast<int>(parts.gate.rows) - 1 - first;
  const std::byte* row = parts.gate.row(first);
  sum_rows<kDtype>(parts.gate.in, x, shared, [&](uint4(&held)[kMade], int at) {
#pragma unroll
    for (int r = 0; r < kMade; ++r) {
      const std::byte* of_part = r < kHalf ? row : row + (parts.up.values - parts.gate.values);
      held[r] = load_streamed(of_part + min(r % kHalf, last) * static_cast<int>(parts.gate.row_bytes) + at);
    }
  });
  const int r = static_cast<int>(threadIdx.x);
  if (r >= kHalf || r > last) return;
  const auto made = [&](const PartView& part, int of_block, std::int64_t column) {
    const float sum = sum_of_warps(shared, of_block) * part.scale_at(first + r, 0);
    return to_float(__float2bfloat16_rn(bias == nullptr ? sum : sum + bias[column]));
  };
  const float gate = made(parts.gate, r, first + r), up = made(parts.up, kHalf + r, parts.gate.rows + first + r);
  out[first + r] = __float2bfloat16_rn(activate(parts.kind, parts.limit, gate, up));
}

template <DType kDtype>
void launch_one(cudaStream_t stream, const RowsProduct& product) {
  const PartStack stack = stack_of(product.parts, kRows<kDtype>);
  launch_early(stream, stack.blocks, kOneRowThreads, 0, one_row_kernel<kDtype>, stack,
               reinterpret_cast<const __nv_bfloat16*>(product.x.raw()), result_of(product));
}

template <DType kDtype>
void launch_gated(cudaStream_t stream, const GatedLinearArgs& args) {
  const GatedParts parts{view_of(args.weight.parts[0]), view_of(args.weight.parts[1]), args.kind, args.limit};
  launch_early(stream, blocks_for(parts.gate.rows, kRows<kDtype> / 2), kOneRowThreads, 0, gated_row_kernel<kDtype>,
               parts, reinterpret_cast<const __nv_bfloat16*>(args.x.raw()), floats(args.bias),
               reinterpret_cast<__nv_bfloat16*>(args.out.raw()));
}

template <DType kDtype>
KernelEntry one_row_entry() {
  KernelEntry made;
  made.row.name = "linear.one_row." + std::string(dtype_info(kDtype).name);
  made.row.phase = KernelPhase::linear;
  made.row.weight = kDtype;
  made.row.max_tokens = 1;
  made.row.threads = kOneRowThreads;
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

bool takes_gated_row(const GatedLinearArgs& args) {
  const std::vector<WeightPart>& parts = args.weight.parts;
  if (!takes_few_rows(args.x) || parts.size() != 2 || args.out.dtype() != DType::bf16) return false;
  const auto alike = [](const WeightPart& part) {
    return std::tuple(part.values.dtype(), part.values.size(0), part.values.stride(0));
  };
  return takes_one_row(args.x.size(0), parts[0]) && takes_one_row(args.x.size(0), parts[1]) &&
         alike(parts[0]) == alike(parts[1]);
}

void gated_row(cudaStream_t stream, const GatedLinearArgs& args) {
  args.weight.parts.front().values.dtype() == DType::bf16 ? launch_gated<DType::bf16>(stream, args)
                                                          : launch_gated<DType::e4m3>(stream, args);
}

}  // namespace octavo::cuda
