// Prefill on Hopper: tiles of rows (token and head of the group packed, row = token * group + head) over tiles of the
// pages that any of them sees, with one softmax in registers. Blocks stay and draw the next tile of rows when one is
// done; its loader then runs ahead of the products.
//
// Queries are rounded to K's kind of 8 bits, with a scale a row; heads of 64 over e4m3 keep what that left, too. In
// bfloat16 the softmax of a tile runs under the product P V of the tile before; in 8 bits that takes more registers
// than there are, and warpgroups run under each other. Caps on scores are not served.
#pragma once

#include "cuda/sm90/prefill_loader.cuh"
#include "cuda/sm90/prefill_sums.cuh"

namespace octavo::cuda::sm90 {

__device__ __forceinline__ float4 scaled(std::uint32_t low, std::uint32_t high, float factor) {
  return make_float4(low_bf16(low) * factor, high_bf16(low) * factor, low_bf16(high) * factor,
                     high_bf16(high) * factor);
}
template <class Shape>
__device__ __forceinline__ std::uint32_t codes_of(const float4& x) {
  if constexpr (Shape::kIntegerKeys) return to_int8(x.x, x.y) | to_int8(x.z, x.w) << 16;
  return to_e4m3(x.x, x.y, x.z, x.w);
}
// A row's largest number is 128 or more, so rests that count are far above the smallest code.
__device__ __forceinline__ std::uint32_t rest_of(std::uint32_t codes, const float4& x) {
  return rest_to_e4m3<1>(codes, x.x, x.y, x.z, x.w);
}

// Rows of queries into a warpgroup's tile, and what is to be known of them. Rows beyond the sequence's read as zeros
// and stand where its last row does.
template <class Shape>
__device__ void load_queries(const AttentionParams& p, const PrefillTask& task, int first_row, std::byte* tile,
                             PrefillRow* facts) {
  constexpr int kLanes = Shape::kWidth / 8, kAtOnce = 32 / kLanes, kSteps = 16 / kAtOnce;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const float score = p.scale * kLog2e * (p.key_scales != nullptr ? p.key_scales[task.kv_head] : 1.0f);
  uint4 eight[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int row = first_row + 16 * warp + step * kAtOnce + lane / kLanes;
    const int token = row / p.group, head = task.kv_head * p.group + row % p.group;
    const __nv_bfloat16* from =
        p.query + (task.first_token + token) * p.query_token_stride + head * p.query_head_stride + lane % kLanes * 8;
    eight[step] = row < task.num_rows ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int row = 16 * warp + step * kAtOnce + lane / kLanes;
    const uint4 x = eight[step];
    float scale = score;
    if constexpr (Shape::kEightBit) {
      std::uint32_t most = 0;
#pragma unroll
      for (const std::uint32_t two : {x.x, x.y, x.z, x.w})
        most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
#pragma unroll
      for (int other = 1; other < kLanes; other *= 2) most = max(most, __shfl_xor_sync(~0u, most, other));
      const QueryScale to = Shape::kIntegerKeys ? integer_scale(most) : query_scale(most);
      scale *= to.inverse;
      const float4 first = scaled(x.x, x.y, to.factor), second = scaled(x.z, x.w, to.factor);
      const uint2 codes = make_uint2(codes_of<Shape>(first), codes_of<Shape>(second));
      std::byte* const at = tile + token_offset(row, lane % kLanes * 8, Shape::kRowBytes);
      *reinterpret_cast<uint2*>(at) = codes;
      if constexpr (Shape::kQueryParts == 2)
        *reinterpret_cast<uint2*>(at + Shape::kQueryPartBytes) =
            make_uint2(rest_of(codes.x, first), rest_of(codes.y, second));
    } else {
      *reinterpret_cast<uint4*>(tile + token_offset(row, lane % kLanes * 16, Shape::kRowBytes)) = x;
    }
    if (lane % kLanes == 0)
      facts[row] = {fmaxf(scale, 1e-37f), task.offset + min(first_row + row, task.num_rows - 1) / p.group};
  }
}

template <class Shape>
__device__ void store_rows(const AttentionParams& p, PrefillSums<Shape>& rows, const PrefillTask& task, int first_row) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const float value_scale = p.value_scales != nullptr ? p.value_scales[task.kv_head] : 1.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + g + 8 * i;
    float weight = whole_weight<Shape>(rows.weight[i]);
    if (row >= task.num_rows) continue;
    const int head = task.kv_head * p.group + row % p.group;
    if (p.sinks != nullptr) weight += power_of_two(p.sinks[head] * kLog2e - rows.maximum_bits(i) + Shape::kWeightBits);
    const float factor = value_scale / weight;
    __nv_bfloat16* to =
        p.out + (task.first_token + row / p.group) * p.out_token_stride + head * p.out_head_stride + 2 * c;
#pragma unroll
    for (int n = 0; n < Shape::kWidth / 8; ++n) {
      const float* two = rows.sums[n * 8 / Shape::kChain] + n * 8 % Shape::kChain / 2 + 2 * i;
      *reinterpret_cast<std::uint32_t*>(to + 8 * n) = to_bf16(two[0] * factor, two[1] * factor);
    }
  }
}

// What this thread leaves of a tile whose pages several blocks share, for join_kernel.
template <class Shape>
__device__ float* piece_of(const AttentionParams& p, const PrefillTask& task, int part) {
  return p.plan.pieces + (task.place() + part) * Shape::kPieceFloats + threadIdx.x / 128 * Shape::kHeldFloats * 128 +
         threadIdx.x % 128;
}

// Tiles that a warpgroup's rows see, and those of them that all its rows see whole.
struct PrefillSpan {
  int end, whole_from, whole_end;

  __device__ PrefillSpan(const AttentionParams& p, const PrefillTask& task, int first_row, int tokens) {
    const int last_row = min(first_row + 64, task.num_rows) - 1;
    const int lowest = task.offset + first_row / p.group, highest = task.offset + last_row / p.group;
    end = first_row < task.num_rows ? min(highest / tokens, task.last_page * kPageTokens / tokens) + 1 : 0;
    whole_end = (lowest + 1) / tokens;
    whole_from = p.window > 0 ? (max(0, highest - p.window + 1) + tokens - 1) / tokens : 0;
  }
};

// The tiles that a warpgroup walks over: the n-th of its block is the t-th of the sequence.
template <class Shape>
class PrefillWalk {
 public:
  using Pipe = PrefillPipe<Shape>;
  __device__ PrefillWalk(const AttentionParams& p, const Pipe& pipe, const PrefillSpan& span, std::uint32_t facts,
                         std::uint64_t queries)
      : p_(p), pipe_(pipe), span_(span), facts_(facts), queries_(queries) {}

  // Tiles [first, end), from the n-th on.
  __device__ void run(PrefillSums<Shape>& rows, int first, int n) const {
    if constexpr (Shape::kEightBit) {
      for (int t = first; t < span_.end; ++t, ++n) {
        begin_keys(rows, n);
        rows.template finish_keys<0>();
        if constexpr (Shape::kIntegerKeys) rows.scale_keys(pipe_.key_scales(n));
        leave(pipe_.keys_empty(n));
        weigh(rows, t);
        wait(pipe_.values_full(n), Pipe::parity(n));
        rows.multiply_values(pipe_.values(n), pipe_.ones());
        leave(pipe_.values_empty(n));
      }
    } else if (first < span_.end) {
      begin_keys(rows, n);
      rows.template finish_keys<0>();
      leave(pipe_.keys_empty(n));
      weigh(rows, first);
      rows.pack_weights();
      for (int t = first + 1; t < span_.end; ++t, ++n) {
        begin_keys(rows, n + 1);
        wait(pipe_.values_full(n), Pipe::parity(n));
        rows.rescale();
        rows.begin_values(pipe_.values(n));
        rows.template finish_keys<1>();
        leave(pipe_.keys_empty(n + 1));
        weigh(rows, t);
        finish_values(rows, n);
        rows.pack_weights();
      }
      rows.rescale();
      wait(pipe_.values_full(n), Pipe::parity(n));
      rows.begin_values(pipe_.values(n));
      finish_values(rows, n);
    }
  }

  // Tiles [n, end) of the block, which only its later rows see.
  __device__ void skip(int n, int end) const {
    for (; n < end; ++n) {
      wait(pipe_.keys_full(n), Pipe::parity(n));
      leave(pipe_.keys_empty(n));
      wait(pipe_.values_full(n), Pipe::parity(n));
      leave(pipe_.values_empty(n));
    }
  }

  __device__ static void leave(std::uint32_t barrier) {
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }

 private:
  __device__ void begin_keys(PrefillSums<Shape>& rows, int n) const {
    wait(pipe_.keys_full(n), Pipe::parity(n));
    rows.begin_keys(queries_, pipe_.keys(n));
  }
  __device__ void finish_values(PrefillSums<Shape>& rows, int n) const {
    rows.finish_values();
    leave(pipe_.values_empty(n));
  }
  __device__ void weigh(PrefillSums<Shape>& rows, int t) const {
    if (t < span_.whole_from || t >= span_.whole_end) {
      int first[2], end[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        end[i] = shared_pointer<const volatile PrefillRow>(facts_)[8 * i].position + 1 - t * Shape::kTokens;
        first[i] = p_.window > 0 ? end[i] - p_.window : 0;
      }
      rows.mask(first, end);
    }
    rows.weigh();
  }

  const AttentionParams& p_;
  const Pipe pipe_;
  const PrefillSpan span_;
  const std::uint32_t facts_;  // of this lane's first row; of the second eight further on
  const std::uint64_t queries_;
};

template <class Shape>
__device__ void take_rows(const AttentionParams& p, std::byte* shared) {
  using Walk = PrefillWalk<Shape>;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  std::uint32_t base = shared_address(shared);
  asm volatile("" : "+r"(base));  // worked out once, not in the loop
  const PrefillPipe<Shape> pipe(base);
  const std::uint32_t facts = base + Shape::kRowFacts + 64 * warpgroup * static_cast<int>(sizeof(PrefillRow));
  const std::uint32_t my_facts =
      facts + (threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) * static_cast<int>(sizeof(PrefillRow));
  int tiles_before = 0;
  for (int turn = 0;; ++turn) {
    wait(pipe.task_ready(turn), turn / 2 & 1);
    const std::uint32_t told = base + Shape::kTasks + turn % 2 * static_cast<int>(sizeof(PrefillTask));
    PrefillTask task = uniform(*shared_pointer<const PrefillTask>(told));
    if (task.kv_head < 0) return;
    const int first_row = task.first_row + 64 * warpgroup;
    meet(1 + warpgroup, 128);  // all warps are through with the queries before
    load_queries<Shape>(p, task, first_row, shared_pointer<std::byte>(base + warpgroup * Shape::kQueryBytes),
                        shared_pointer<PrefillRow>(facts));
    publish();
    meet(1 + warpgroup, 128);
    const PrefillSpan span(p, task, first_row, Shape::kTokens);
    const Walk walk(p, pipe, span, my_facts, operand(base + warpgroup * Shape::kQueryBytes, Shape::kChunk));
    PrefillSums<Shape> rows;
    const auto* row_facts = shared_pointer<const PrefillRow>(my_facts);
    rows.start(row_facts[0], row_facts[8]);
    walk.run(rows, task.first_page / Shape::kPages, tiles_before);
    // Again: not kept in registers all the way.
    task = uniform(*shared_pointer<const PrefillTask>(base + Shape::kTasks + turn % 2 * sizeof(PrefillTask)));
    __syncwarp();
    Walk::leave(pipe.task_read(turn));
    const int first_tile = task.first_page / Shape::kPages;
    const int seen = max(0, span.end - first_tile);
    const int tiles = task.last_page / Shape::kPages - first_tile + 1;
    walk.skip(tiles_before + seen, tiles_before + tiles);
    tiles_before += tiles;
    if (task.parts() > 1) {
      rows.put(piece_of<Shape>(p, task, task.part()));
    } else {
      store_rows<Shape>(p, rows, task, task.first_row + 64 * warpgroup);
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) prefill_kernel(const __grid_constant__ AttentionParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::byte shared[];
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  PrefillPipe<Shape>::make(shared);
  __syncthreads();
  if (warpgroup == Shape::kWarpgroups) {
    give_registers<Shape::kLoaderRegisters>();
    if (threadIdx.x % 128 == 0) feed<Shape>(p, shared);
  } else {
    take_registers<Shape::kRegisters>();
    take_rows<Shape>(p, shared);
  }
#else
  __trap();
#endif
}

// The tiles whose pages several blocks shared, one a block, whose threads are those of prefill_kernel's rows: adds the
// pieces in their order and stores the rows. `drawing` blocks had drawn them.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads - 128)
    join_kernel(const __grid_constant__ AttentionParams p, int drawing) {
  const PrefillDraws draws(p, drawing);
  const int draw = draws.first_piece(static_cast<int>(blockIdx.x));
  if (draw >= draws.total()) return;
  PrefillTask task = task_of<Shape>(p, draws.item(p, draw), draws.kv_head(draw));
  draws.cut<Shape>(draw, task);
  if (task.parts() == 1) return;
  PrefillSums<Shape> rows;
  rows.join(piece_of<Shape>(p, task, 0), task.parts());
  store_rows<Shape>(p, rows, task, task.first_row + static_cast<int>(threadIdx.x) / 128 * 64);
}

}  // namespace octavo::cuda::sm90
