// The products of grouped_tiles.cu: choices sorted by expert, with weights of any dtype as operands of the tensor
// cores. A lane's eight neighbouring numbers are what two products want of it in another order; inputs are read in the
// same order, so nothing is shuffled.
#pragma once

#include "cuda/early_start.cuh"
#include "cuda/portable/mma.cuh"
#include "cuda/shared_address.cuh"
#include "cuda/weight_piece.cuh"

namespace octavo::cuda {

constexpr int kOperandRows = 16;  // of the weight, a tensor core's

struct GroupTile {
  std::int32_t expert, first, count;  // choices sorted[first, first + count)
};

// Choices by expert, in device memory. Of one token each choice is a tile: then nothing is sorted, and all is null.
struct Sorted {
  std::int32_t* choices = nullptr;
  GroupTile* tiles = nullptr;
  std::int32_t* count = nullptr;  // of tiles

  __device__ std::int64_t choice(std::int32_t i) const { return choices == nullptr ? i : choices[i]; }
};

// Where a choice's results go: rows of bf16, or of f32 that wait to be weighted.
struct ChoiceResult {
  Rows<__nv_bfloat16> rows;
  float* sums = nullptr;  // [choices, out] or null

  __device__ void put_two(std::int64_t choice, std::int64_t i, std::int64_t out, float a, float b) const {
    if (sums != nullptr)
      *reinterpret_cast<float2*>(sums + choice * out + i) = make_float2(a, b);
    else
      *reinterpret_cast<__nv_bfloat162*>(rows.row(choice) + i) = __floats2bfloat162_rn(a, b);
  }
};

// Rows 2 g and 2 g + 1 of a tile's sixteen are a lane's: neighbours in the result.
struct LaneRows {
  WeightRow row[2];
};
__device__ inline LaneRows lane_rows(const Grouping& grouping, std::int64_t expert, std::int64_t first) {
  std::int64_t row = first < grouping.out ? first : 0;  // a block's last tiles may have none
  const PartView& part = grouping.part_of(expert, row);
  row += threadIdx.x % 32 / 4 * 2;
  return {{WeightRow(part, row), WeightRow(part, row + 1)}};
}

// Both rows' results for a choice, as they are stored.
__device__ inline void put_rows(const Grouping& grouping, const ChoiceResult& result, const LaneRows& rows, int expert,
                                std::int64_t choice, std::int64_t column, float a, float b) {
  a *= rows.row[0].scale_of_row();
  b *= rows.row[1].scale_of_row();
  if (grouping.bias != nullptr) {
    const float* bias = grouping.bias + expert * grouping.out + column;
    a += bias[0];
    b += bias[1];
  }
  result.put_two(choice, column, grouping.out, a, b);
}

__device__ inline void multiply(float (&sums)[4], const uint4& w0, const uint4& w1, const uint4& x) {
  portable::multiply_add<portable::Operand::bf16>(sums, {w0.x, w1.x, w0.y, w1.y}, x.x, x.y);
  portable::multiply_add<portable::Operand::bf16>(sums, {w0.z, w1.z, w0.w, w1.w}, x.z, x.w);
}

constexpr int kFew = 8;
constexpr int kFewWarps = 8;
// How many units of 64 numbers a warp has on their way: two where they have few bytes.
template <DType kDtype>
constexpr int kUnitsAhead = kDtype == DType::e2m1 || kDtype == DType::e4m3 ? 2 : 1;

// Up to eight choices of one expert by 16 numbers of the result; warps split the row, 64 numbers at a time.
template <DType kDtype>
__global__ void __launch_bounds__(32 * kFewWarps, kDtype == DType::f32 ? 2 : 3)
    grouped_few_kernel(Rows<const __nv_bfloat16> x, const __grid_constant__ Grouping grouping, Sorted sorted,
                       ChoiceResult result) {
  let_next_start();
  wait_for_kernels_before();
  GroupTile tile{0, static_cast<std::int32_t>(blockIdx.y), 1};
  if (sorted.tiles == nullptr) {
    tile.expert = grouping.ids[blockIdx.y];
  } else {
    if (static_cast<int>(blockIdx.y) >= *sorted.count) return;
    tile = sorted.tiles[blockIdx.y];
  }
  __shared__ float4 shared[kFewWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const std::int64_t first = std::int64_t{blockIdx.x} * kOperandRows;
  const LaneRows rows = lane_rows(grouping, tile.expert, first);
  const auto* from =
      reinterpret_cast<const uint4*>(x.row(grouping.input_of(sorted.choice(tile.first + min(g, tile.count - 1)))));
  const int units = static_cast<int>(rows.row[0].part->in) / 64;
  constexpr int kAhead = kUnitsAhead<kDtype>;
  WeightPiece<kDtype> held[kAhead][2][2];
  const auto ask = [&](WeightPiece<kDtype>(&to)[2][2], int unit) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int r = 0; r < 2; ++r) to[p][r].load(rows.row[r], 8 * unit + 4 * p + c);
  };
  float sums[4] = {};
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (warp + i * kFewWarps < units) ask(held[i], warp + i * kFewWarps);
  for (int first_unit = warp; first_unit < units; first_unit += kAhead * kFewWarps)
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int unit = first_unit + i * kFewWarps, next = unit + kAhead * kFewWarps;
      if (unit >= units) break;
      const uint4 input[2] = {from[8 * unit + c], from[8 * unit + 4 + c]};
      const uint4 w[2][2] = {{held[i][0][0].bf16(), held[i][0][1].bf16()},
                             {held[i][1][0].bf16(), held[i][1][1].bf16()}};
      if (next < units) ask(held[i], next);
      multiply(sums, w[0][0], w[0][1], input[0]);
      multiply(sums, w[1][0], w[1][1], input[1]);
    }
  shared[warp][lane] = make_float4(sums[0], sums[1], sums[2], sums[3]);
  __syncthreads();
  if (warp != 0) return;
  float4 all = shared[0][lane];
#pragma unroll
  for (int w = 1; w < kFewWarps; ++w) {
    const float4 more = shared[w][lane];
    all.x += more.x, all.y += more.y, all.z += more.z, all.w += more.w;
  }
  const auto put = [&](int token, float a, float b) {
    if (token < tile.count)
      put_rows(grouping, result, rows, tile.expert, sorted.choice(tile.first + token), first + 2 * g, a, b);
  };
  put(2 * c, all.x, all.z);
  put(2 * c + 1, all.y, all.w);
}

constexpr int kMany = 64;
constexpr int kManyWarps = 4;
constexpr int kWarpTiles = 2;                                         // of 16 rows, a warp
constexpr int kManyResults = kManyWarps * kWarpTiles * kOperandRows;  // a block
constexpr int kStages = 3;                                            // of 64 numbers of each input on their way
constexpr int kStageChunks = 8;                                       // 16 bytes each, of a stage's row
constexpr int kCopied = kMany * kStageChunks / (32 * kManyWarps);     // a thread
constexpr int kCopyStep = 32 * kManyWarps / kStageChunks;             // rows between a thread's

// Rows of inputs lie so in shared memory that eight lanes that read two rows meet all banks.
__device__ inline int chunk_at(int token, int chunk) { return token * kStageChunks + (chunk ^ (token & 1) << 2); }

template <DType kDtype>
__global__ void __launch_bounds__(32 * kManyWarps, kDtype == DType::f32 ? 2 : 3)
    grouped_many_kernel(Rows<const __nv_bfloat16> x, const __grid_constant__ Grouping grouping, Sorted sorted,
                        ChoiceResult result) {
  let_next_start();
  wait_for_kernels_before();
  if (static_cast<int>(blockIdx.y) >= *sorted.count) return;
  const GroupTile tile = sorted.tiles[blockIdx.y];
  __shared__ uint4 staged[kStages][kMany * kStageChunks];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, c = thread % 4;
  const std::int64_t first = std::int64_t{blockIdx.x} * kManyResults + warp * kWarpTiles * kOperandRows;
  const __nv_bfloat16* from[kCopied];
#pragma unroll
  for (int i = 0; i < kCopied; ++i) {
    const int token = min(thread / kStageChunks + i * kCopyStep, tile.count - 1);
    from[i] = x.row(grouping.input_of(sorted.choices[tile.first + token])) + thread % kStageChunks * 8;
  }
  static_assert(kWarpTiles == 2);
  const LaneRows rows[kWarpTiles] = {lane_rows(grouping, tile.expert, first),
                                     lane_rows(grouping, tile.expert, first + kOperandRows)};
  const int stages = static_cast<int>(rows[0].row[0].part->in) / 64;
  const auto bring = [&](int stage) {
#pragma unroll
    for (int i = 0; i < kCopied; ++i)
      portable::copy_async(
          shared_address(
              &staged[stage % kStages][chunk_at(thread / kStageChunks + i * kCopyStep, thread % kStageChunks)]),
          from[i] + 64 * stage);
  };
  WeightPiece<kDtype> next[kWarpTiles][2];
  const auto ask = [&](int half) {  // of a stage
#pragma unroll
    for (int m = 0; m < kWarpTiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) next[m][r].load(rows[m].row[r], 4 * half + c);
  };
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < stages) bring(stage);
    portable::commit_copies();
  }
  ask(0);
  float sums[kWarpTiles][kMany / 8][4] = {};
  for (int half = 0; half < 2 * stages; ++half) {
    if (half % 2 == 0) {
      portable::wait_copies<kStages - 2>();
      __syncthreads();
      if (half / 2 + kStages - 1 < stages) bring(half / 2 + kStages - 1);
      portable::commit_copies();
    }
    uint4 w[kWarpTiles][2];
#pragma unroll
    for (int m = 0; m < kWarpTiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) w[m][r] = next[m][r].bf16();
    if (half + 1 < 2 * stages) ask(half + 1);
    const uint4* inputs = staged[half / 2 % kStages];
#pragma unroll
    for (int t = 0; t < kMany / 8; ++t) {
      if (8 * t >= tile.count) break;
      const uint4 input = inputs[chunk_at(8 * t + g, half % 2 * 4 + c)];
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) multiply(sums[m][t], w[m][0], w[m][1], input);
    }
  }
#pragma unroll
  for (int t = 0; t < kMany / 8; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = 8 * t + 2 * c + i;
      if (token >= tile.count) continue;
      const std::int64_t choice = sorted.choices[tile.first + token];
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) {
        const std::int64_t column = first + m * kOperandRows + 2 * g;
        if (column < grouping.out)
          put_rows(grouping, result, rows[m], tile.expert, choice, column, sums[m][t][i], sums[m][t][2 + i]);
      }
    }
}

}  // namespace octavo::cuda
