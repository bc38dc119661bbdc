// Products of few rows on the tensor cores, for weights in e4m3: the tokens are the eight columns of a tile
// whose 16 rows are the weight's, so a weight is read once for all of them and the arithmetic costs next to nothing. A
// block's warps split a row's numbers.
//
// A lane's 16 bytes are the numbers that the product wants of it in another order; x is read in the same order, so
// nothing is shuffled. e4m3 becomes bf16 exactly; a row that holds a NaN is NaN. What is loaded first is asked for
// before the kernel before has ended: a weight is never written.
#include "cuda/early_start.cuh"
#include "cuda/few_rows.cuh"
#include "cuda/kernel_rows.h"
#include "cuda/portable/mma.cuh"

namespace octavo::cuda {

namespace {

constexpr int kTileRows = 16;
constexpr int kTileTokens = 8;
static_assert(kMaxFewRows == kTileTokens);
constexpr int kTileUnit = 128;    // numbers of a row that a warp takes at a time
constexpr int kTokenStride = 20;  // of sums in shared memory, so that lanes meet different banks

constexpr int kStep = 16;                             // numbers in a lane's 16 bytes
constexpr int kTilePieces = kTileUnit / (4 * kStep);  // of a unit, a lane
constexpr int kTileWarps = 16;                        // for the arithmetic

// Beyond a row's end it is zero, as the weight is.
__device__ uint4 load_input(const __nv_bfloat16* from, bool exists) {
  return exists ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}

// Four codes of a row as they become bf16: exponent and mantissa moved to their places are the number times 2^-120.
struct FourCodes {
  std::uint32_t magnitude[2], sign[2];

  __device__ explicit FourCodes(std::uint32_t word) {
    const std::uint32_t upper[2] = {__byte_perm(word, 0, 0x1404), __byte_perm(word, 0, 0x3424)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      magnitude[i] = upper[i] >> 4 & 0x07F007F0u;
      sign[i] = upper[i] & 0x80008000u;
    }
  }
  __device__ std::uint32_t bf16(int i) const {
    const std::uint32_t bits = magnitude[i] | sign[i], power = 0x7B807B80u;  // 2^120
    return portable::bits_of(
        __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&bits), *reinterpret_cast<const __nv_bfloat162*>(&power)));
  }
};
constexpr std::uint32_t kNanMagnitude = 0x07F0;

struct TileSums {
  float piece[4] = {};  // of numbers that share a scale
  float all[4] = {};
  std::uint32_t largest[2] = {};  // magnitudes of codes in rows g and g + 8, two side by side

  __device__ void add(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    portable::multiply_add<portable::Operand::bf16>(piece, a, b0, b1);
  }
  __device__ void close(float scale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      all[i] = fmaf(scale, piece[i], all[i]);
      piece[i] = 0.0f;
    }
  }
};

// One piece of both rows: 16 bytes a lane of each.
__device__ void take_piece(TileSums& sums, const uint4 (&rows)[2], const __nv_bfloat16* x, bool exists) {
  const std::uint32_t w0[4] = {rows[0].x, rows[0].y, rows[0].z, rows[0].w};
  const std::uint32_t w1[4] = {rows[1].x, rows[1].y, rows[1].z, rows[1].w};
  const uint4 first = load_input(x, exists), second = load_input(x + 8, exists);
  const std::uint32_t b[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const FourCodes r0(w0[i]), r1(w1[i]);
    sums.largest[0] = __vimax3_u16x2(sums.largest[0], r0.magnitude[0], r0.magnitude[1]);
    sums.largest[1] = __vimax3_u16x2(sums.largest[1], r1.magnitude[0], r1.magnitude[1]);
    sums.add({r0.bf16(0), r1.bf16(0), r0.bf16(1), r1.bf16(1)}, b[2 * i], b[2 * i + 1]);
  }
}

// Whether one of a row's codes in this warp was a NaN.
__device__ bool has_nan(std::uint32_t largest) {
  largest = __vmaxu2(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = __vmaxu2(largest, __shfl_xor_sync(~0u, largest, 2));
  return (largest & 0xFFFF) == kNanMagnitude || largest >> 16 == kNanMagnitude;
}

// The sums of all warps, in their order; then scale, bias and the one rounding.
__device__ void put_tile(const TileSums& sums, const PartView& part, std::int64_t first, std::int64_t column,
                         int tokens, const RowsResult& result) {
  __shared__ float shared[kTileWarps][kTileTokens * kTokenStride];
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  const bool nan[2] = {has_nan(sums.largest[0]), has_nan(sums.largest[1])};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    shared[warp][(2 * c + i % 2) * kTokenStride + g + 8 * (i / 2)] =
        nan[i / 2] ? __int_as_float(0x7FC00000) : sums.all[i] + sums.piece[i];
  __syncthreads();
  const int token = threadIdx.x / kTileRows, row = threadIdx.x % kTileRows;
  if (token >= tokens || first + row >= part.rows) return;
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kTileWarps; ++w) sum += shared[w][token * kTokenStride + row];
  if (part.grain != ScaleGrain::block) sum *= part.scale_at(first + row, 0);
  result.put(token, column + first + row, sum);
}

__global__ void __launch_bounds__(32 * kTileWarps, 2)
    tile_rows_kernel(const __grid_constant__ PartStack stack, Rows<const __nv_bfloat16> x, int tokens,
                     RowsResult result) {
  const int which = stack.part_of(blockIdx.x);
  const PartView& part = stack.part[which];
  const std::int64_t first = std::int64_t{blockIdx.x - stack.first_block[which]} * kTileRows;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  const int in = static_cast<int>(part.in), units = (in + kTileUnit - 1) / kTileUnit;
  const std::byte* rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) rows[i] = part.row(min(first + g + 8 * i, part.rows - 1)) + 16 * c;
  uint4 held[kTilePieces][2];
  const auto ask = [&](int u) {
#pragma unroll
    for (int p = 0; p < kTilePieces; ++p) {
      const bool exists = u * kTileUnit + (4 * p + c) * kStep < in;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        held[p][i] = exists ? load_streamed(rows[i] + u * (kTileUnit / kStep * 16) + 64 * p) : make_uint4(0, 0, 0, 0);
    }
  };
  if (warp < units) ask(warp);
  let_next_start();
  wait_for_kernels_before();
  const __nv_bfloat16* from = x.data + min(g, tokens - 1) * x.stride;
  const bool blocks = part.grain == ScaleGrain::block;
  const float* scales = blocks ? part.scale + first / part.block_rows * part.scale_stride : nullptr;
  const int units_a_scale = blocks ? part.block_cols / kTileUnit : 1;
  TileSums sums;
  for (int u = warp; u < units; u += kTileWarps) {
    const float scale = blocks ? __ldg(scales + u / units_a_scale) : 1.0f;
#pragma unroll
    for (int p = 0; p < kTilePieces; ++p) {
      const int at = u * kTileUnit + (4 * p + c) * kStep;
      take_piece(sums, held[p], from + at, at < in);
    }
    if (u + kTileWarps < units) ask(u + kTileWarps);
    if (blocks) sums.close(scale);
  }
  put_tile(sums, part, first, stack.column[which], tokens, result);
}

KernelEntry tile_entry(int tokens) {
  KernelEntry made;
  made.row.name = "linear.tile_rows.e4m3.t" + std::to_string(tokens);
  made.row.phase = KernelPhase::linear;
  made.row.weight = DType::e4m3;
  made.row.max_tokens = tokens;
  made.row.threads = 32 * kTileWarps;
  made.function = reinterpret_cast<const void*>(tile_rows_kernel);
  return made;
}

}  // namespace

std::vector<KernelEntry> tile_rows_kernels() { return {tile_entry(4), tile_entry(8)}; }

bool takes_tile_rows(std::int64_t rows, const WeightPart& part) {
  const PartView view = view_of(part);
  if (view.dtype != DType::e4m3 || !loads_by_eight(view) || view.in % 16 != 0) return false;
  if (view.grain == ScaleGrain::block) return view.block_cols % kTileUnit == 0 && view.block_rows % kTileRows == 0;
  return rows > 1;  // a single row is faster without
}

void tile_rows(cudaStream_t stream, const RowsProduct& product) {
  const PartStack stack = stack_of(product.parts, kTileRows);
  launch_early(stream, stack.blocks, 32 * kTileWarps, 0, tile_rows_kernel, stack,
               rows_of<const __nv_bfloat16>(product.x), static_cast<int>(product.x.size(0)), result_of(product));
}

}  // namespace octavo::cuda
