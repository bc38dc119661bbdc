// Decode on Hopper: one token a sequence. A block walks over a list of splits; a warp brings their pages ahead of two
// warpgroups, which take them in turns and are merged by one of them at the end of a split. The block that finishes a
// sequence's last split merges all of them, in their order whoever came last.
//
// Up to eight heads of a group are a tile; larger groups take several, whose pages the second finds in the L2 cache.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/early_start.cuh"
#include "cuda/sm90/decode_sums.cuh"

namespace octavo::cuda::sm90 {

using portable::AttentionParams;

// Where one block's work goes. A decode's row is its sequence's number: they come first.
struct DecodeTask {
  DecodeItem item;
  int work;  // a part of an item: the list's, times the parts of each
  int kv_head, first_head, rows;

  __device__ static int parts(const AttentionParams& p) {
    return p.kv_heads * ((p.group + kDecodeHeads - 1) / kDecodeHeads);
  }

  __device__ DecodeTask(const AttentionParams& p, int at) : work(at) {
    const int of_head = (p.group + kDecodeHeads - 1) / kDecodeHeads;
    const int part = work % DecodeTask::parts(p);
    item = p.plan.decodes[place(p)];
    kv_head = part / of_head;
    const int first_row = part % of_head * kDecodeHeads;
    first_head = kv_head * p.group + first_row;
    rows = min(kDecodeHeads, p.group - first_row);
  }
  __device__ int place(const AttentionParams& p) const { return work / DecodeTask::parts(p); }
};

// The ring of places, of a page or two each. The n-th place that a block fills goes to warpgroup n % 2, and so does its
// pair of barriers: a parity tells a phase from the one before only, so who waits at a barrier must be there for each
// of its phases. Where the ring has an odd number of places, a place has two pairs in turns.
template <class Shape>
class DecodePipe {
 public:
  __device__ explicit DecodePipe(std::byte* shared) : shared_(shared_address(shared)) {}
  __device__ void make() const {
    for (int i = 0; i < Shape::kTurns; ++i) {
      make_barrier(full(i), 1);
      make_barrier(empty(i), 4);
    }
    barriers_made();
  }
  __device__ static int parity(int n) { return n / Shape::kTurns & 1; }
  __device__ std::uint32_t pages(int n) const { return shared_ + n % Shape::kStages * Shape::kPlaceBytes; }
  __device__ std::uint32_t scales(int n) const {
    return shared_ + Shape::kKeyScales + n % Shape::kStages * Shape::kPages * Shape::kScalesOfPage;
  }
  __device__ std::uint32_t full(int n) const { return barrier(n % Shape::kTurns); }
  __device__ std::uint32_t empty(int n) const { return barrier(Shape::kTurns + n % Shape::kTurns); }

  // Begins to fill the n-th place when it is free.
  __device__ void bring(int n, const std::byte* const (&from)[Shape::kPages]) const {
    if (n >= Shape::kStages) wait(empty(n - Shape::kStages), parity(n - Shape::kStages));
    arrive_expecting(full(n), Shape::kPages * (Shape::kPageBytes + Shape::kScalesOfPage));
#pragma unroll
    for (int i = 0; i < Shape::kPages; ++i) {
      copy_bulk(pages(n) + i * Shape::kPageBytes, from[i], Shape::kPageBytes, full(n));
      if constexpr (Shape::kIntegerKeys)  // they lie behind V
        copy_bulk(scales(n) + i * Shape::kScalesOfPage, from[i] + Shape::kPageBytes, Shape::kScalesOfPage, full(n));
    }
  }

 private:
  __device__ std::uint32_t barrier(int i) const { return shared_ + Shape::kBarriers + i * kBarrierBytes; }
  std::uint32_t shared_;
};

// The warp that brings pages; lanes read 32 numbers of pages at a time, those of the next split early. A place that is
// not filled by a split's last page gets it twice: nothing of the second is seen, but it is numbers.
template <class Shape>
__device__ void bring_pages(const AttentionParams& p, const DecodePipe<Shape>& pipe, DecodeTask task, int total) {
  const int lane = threadIdx.x % 32;
  const auto numbers_from = [&](const DecodeTask& of, int begin) {
    const std::int32_t* table = p.page_table + std::int64_t{of.item.seq} * p.max_pages + of.item.first_page;
    return begin + lane < of.item.num_pages ? table[begin + lane] : 0;
  };
  int n = 0, numbers = numbers_from(task, 0);
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const int following = work + static_cast<int>(gridDim.x);
    const DecodeTask next(p, following < total ? following : work);
    const std::byte* head = p.pages + std::int64_t{task.kv_head} * p.layout.head_bytes;
    int next_numbers = 0;
    for (int i = 0; i < task.item.num_pages; i += Shape::kPages, ++n) {
      if (i > 0 && i % 32 == 0) numbers = numbers_from(task, i);
      const std::byte* from[Shape::kPages];
#pragma unroll
      for (int k = 0; k < Shape::kPages; ++k)
        from[k] = head + __shfl_sync(~0u, numbers, min(i + k, task.item.num_pages - 1) % 32) * p.page_bytes;
      if (lane == 0) pipe.bring(n, from);
      if (i == 0) next_numbers = numbers_from(next, 0);
    }
    numbers = next_numbers;
    task = next;
  }
}

// One head's query in a warp: read early, put later where the warpgroups read it, with what products with it are
// multiplied with.
template <class Shape>
class QueryRow {
 public:
  __device__ void read(const AttentionParams& p, const DecodeTask& task, int row) {
    using Piece = std::conditional_t<kEach == 2, std::uint32_t, std::conditional_t<kEach == 4, uint2, uint4>>;
    static_assert(sizeof(Piece) == sizeof(twos_));
    const __nv_bfloat16* from = p.query + task.item.seq * p.query_token_stride +
                                (task.first_head + row) * p.query_head_stride + threadIdx.x % 32 * kEach;
    const Piece piece = row < task.rows ? *reinterpret_cast<const Piece*>(from) : Piece{};
    memcpy(twos_, &piece, sizeof piece);
  }

  __device__ void put(const AttentionParams& p, const DecodeTask& task, int row, std::byte* shared) const {
    const int lane = threadIdx.x % 32;
    const auto place = [&](int of_row, int b) {
      return shared + Shape::kQuery + b / Shape::kChunk * Shape::kColumns * Shape::kChunk +
             swizzled(of_row * Shape::kChunk + b % Shape::kChunk, Shape::kChunk);
    };
    float scale =
        p.scale * (p.soft_cap > 0.0f ? 1.0f : kLog2e) * (p.key_scales != nullptr ? p.key_scales[task.kv_head] : 1.0f);
    if constexpr (Shape::kEightBit) {
      std::uint32_t most = 0;
#pragma unroll
      for (const std::uint32_t two : twos_) most = max(most, max(two << 16 & 0x7FFF0000u, two & 0x7FFF0000u));
      most = __reduce_max_sync(~0u, most);
      const QueryScale to = Shape::kIntegerKeys ? integer_scale(most) : query_scale(most);
      scale *= to.inverse;
#pragma unroll
      for (int i = 0; i < kEach / 2; ++i) {
        const float x = low_bf16(twos_[i]) * to.factor, y = high_bf16(twos_[i]) * to.factor;
        std::uint32_t codes, rest;
        if constexpr (Shape::kIntegerKeys) {
          const float whole_x = rintf(x), whole_y = rintf(y);
          codes = to_int8(whole_x, whole_y);
          rest = to_int8((x - whole_x) * Shape::kQueryRest, (y - whole_y) * Shape::kQueryRest);
        } else {
          codes = to_e4m3(x, y, 0.0f, 0.0f);
          rest = rest_to_e4m3<kRestTimes>(codes, x, y, 0.0f, 0.0f);
        }
        *reinterpret_cast<std::uint16_t*>(place(row, lane * kEach + 2 * i)) = static_cast<std::uint16_t>(codes);
        *reinterpret_cast<std::uint16_t*>(place(row + kDecodeHeads, lane * kEach + 2 * i)) =
            static_cast<std::uint16_t>(rest);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kEach / 2; ++i)
        *reinterpret_cast<std::uint32_t*>(place(row, 2 * lane * kEach + 4 * i)) = twos_[i];
    }
    if (lane == 0) reinterpret_cast<float*>(shared + Shape::kScales)[row] = fmaxf(scale, 1e-37f);
  }

 private:
  static constexpr int kEach = Shape::kWidth / 32;  // numbers of a lane
  std::uint32_t twos_[kEach / 2];
};

// What a warpgroup has, for the one of the first page to merge. place: 0 for that one.
template <class Shape>
__device__ void post(const DecodeSums<Shape>& rows, int place, std::byte* shared) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  if (g == 0) {
    auto* maxima = reinterpret_cast<float2*>(shared + Shape::kFinalMaxima) + place * 4;
    auto* weights = reinterpret_cast<float2*>(shared + Shape::kFinalWeights) + (place * 4 + warp) * 4;
    if (warp == 0) maxima[c] = make_float2(rows.maximum[0], rows.maximum[1]);
    weights[c] = make_float2(rows.weight[0], rows.weight[1]);
  }
  if (place == 0) return;
  float* posted = reinterpret_cast<float*>(shared + Shape::kPosted) +
                  ((place - 1) * kDecodeHeads + 2 * c) * Shape::kPostedRow + 16 * warp + g;
#pragma unroll
  for (int part = 0; part < DecodeSums<Shape>::kParts; ++part)
#pragma unroll
    for (int i = 0; i < 4; ++i) posted[i % 2 * Shape::kPostedRow + 64 * part + i / 2 * 8] = rows.sums[part][i];
}

// The warpgroup of a split's first page adds what the other posted: the result itself where a sequence has one split,
// else a partial one.
template <class Shape>
__device__ void finish_split(const AttentionParams& p, const DecodeTask& task, DecodeSums<Shape>& rows,
                             const std::byte* shared) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const auto* maxima = reinterpret_cast<const float*>(shared + Shape::kFinalMaxima);
  const auto* weights = reinterpret_cast<const float*>(shared + Shape::kFinalWeights);
  const float value_scale = p.value_scales != nullptr ? p.value_scales[task.kv_head] : 1.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * c + i, head = task.first_head + row;
    float maximum = maxima[row];
#pragma unroll
    for (int other = 1; other < Shape::kWarpgroups; ++other)
      maximum = fmaxf(maximum, maxima[other * kDecodeHeads + row]);
    float weight = 0.0f;
#pragma unroll
    for (int other = 0; other < Shape::kWarpgroups; ++other) {
      const float factor = power_of_two(maxima[other * kDecodeHeads + row] - maximum);
#pragma unroll
      for (int of_warp = 0; of_warp < 4; ++of_warp)
        weight = fmaf(factor, weights[(other * 4 + of_warp) * kDecodeHeads + row], weight);
      const float* posted = reinterpret_cast<const float*>(shared + Shape::kPosted) +
                            ((other - 1) * kDecodeHeads + row) * Shape::kPostedRow + 16 * warp + g;
#pragma unroll
      for (int part = 0; part < DecodeSums<Shape>::kParts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& sum = rows.sums[part][2 * half + i];
          sum = other == 0 ? factor * sum : fmaf(factor, posted[64 * part + 8 * half], sum);
        }
    }
    if (row >= task.rows) continue;
    if (task.item.splits == 1) {
      const float back = value_scale / (weight + portable::sink_weight(p, head, maximum, Shape::kWeightBits));
      __nv_bfloat16* to = p.out + task.item.seq * p.out_token_stride + head * p.out_head_stride + 16 * warp + g;
#pragma unroll
      for (int part = 0; part < DecodeSums<Shape>::kParts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          to[64 * part + 8 * half] = __float2bfloat16(rows.sums[part][2 * half + i] * back);
      continue;
    }
    const std::int64_t at = std::int64_t{task.place(p)} * p.q_heads + head;
    float* to = p.plan.partial + at * Shape::kWidth + 16 * warp + g;
#pragma unroll
    for (int part = 0; part < DecodeSums<Shape>::kParts; ++part)
#pragma unroll
      for (int half = 0; half < 2; ++half) to[64 * part + 8 * half] = rows.sums[part][2 * half + i];
    if (warp == 0 && g == 0) p.plan.partial_sums[at] = make_float2(maximum, weight);
  }
}

// Of one warpgroup: whether this is the last split of its sequence and tile. The counter is zero again afterwards.
__device__ inline bool last_split(std::uint32_t* counter, int splits, int meeting, int* last) {
  meet(meeting, 128);
  if (threadIdx.x % 128 == 0) {
    *last = portable::count_up(counter) + 1 == static_cast<std::uint32_t>(splits) ? 1 : 0;
    if (*last != 0) *counter = 0;
  }
  meet(meeting, 128);
  return *last != 0;
}

// A warp of a warpgroup a row: lanes take a split each for the maxima, then some numbers each over all splits.
template <class Shape>
__device__ void merge_splits(const AttentionParams& p, const DecodeTask& task) {
  static_assert(kMaxSplits == 32);
  constexpr int kEach = Shape::kWidth / 32, kAhead = kEach <= 4 ? 8 : 2;
  const float value_scale = p.value_scales != nullptr ? p.value_scales[task.kv_head] : 1.0f;
  const int lane = threadIdx.x % 32, splits = task.item.splits;
  for (int row = threadIdx.x / 32 % 4; row < task.rows; row += 4) {
    const int head = task.first_head + row;
    const std::int64_t first = std::int64_t{task.place(p) - task.item.split} * p.q_heads + head;
    float2 of_split = make_float2(minus_infinity(), 0.0f);
    if (lane < splits) of_split = __ldcg(&p.plan.partial_sums[first + std::int64_t{lane} * p.q_heads]);
    float maximum = of_split.x;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, step));
    const float factor = power_of_two(of_split.x - maximum);
    float weight = factor * of_split.y;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) weight += __shfl_xor_sync(~0u, weight, step);
    weight += portable::sink_weight(p, head, maximum, Shape::kWeightBits);
    float sums[kEach] = {};
    for (int begin = 0; begin < splits; begin += kAhead) {
      float2 ahead[kAhead][kEach / 2];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const std::int64_t at = first + std::int64_t{min(begin + i, splits - 1)} * p.q_heads;
#pragma unroll
        for (int k = 0; k < kEach / 2; ++k)
          ahead[i][k] = __ldcg(reinterpret_cast<const float2*>(p.plan.partial + at * Shape::kWidth) + 32 * k + lane);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float of_all = __shfl_sync(~0u, factor, (begin + i) % 32);  // beyond the last split: zero
#pragma unroll
        for (int k = 0; k < kEach / 2; ++k) {
          sums[2 * k] = fmaf(of_all, ahead[i][k].x, sums[2 * k]);
          sums[2 * k + 1] = fmaf(of_all, ahead[i][k].y, sums[2 * k + 1]);
        }
      }
    }
    auto* to = reinterpret_cast<__nv_bfloat162*>(p.out + task.item.seq * p.out_token_stride + head * p.out_head_stride);
    const float back = value_scale / weight;
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k)
      to[32 * k + lane] = __floats2bfloat162_rn(sums[2 * k] * back, sums[2 * k + 1] * back);
  }
}

template <class Shape>
__device__ void take_splits(const AttentionParams& p, const DecodePipe<Shape>& pipe, DecodeTask task, int total,
                            std::byte* shared) {
  using Pipe = DecodePipe<Shape>;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int lane = threadIdx.x % 32;
  const int parts = DecodeTask::parts(p);
  const auto* scales = reinterpret_cast<const float2*>(shared + Shape::kScales);
  DecodeSums<Shape> rows(shared, warpgroup, p.soft_cap);
  static_assert(Shape::kConsumers == 32 * kDecodeHeads, "a warp a head");
  const int warp = threadIdx.x / 32;
  QueryRow<Shape> query;
  query.read(p, task, warp);
  int places_before = 0;
  for (int work = blockIdx.x; work < total; work += gridDim.x) {
    const int following = work + static_cast<int>(gridDim.x);
    const DecodeTask next(p, following < total ? following : work);
    query.put(p, task, warp, shared);
    publish();
    meet(1 + Shape::kWarpgroups, Shape::kConsumers);
    rows.start(scales[lane % 4]);
    const int seen_from = p.window > 0 ? max(0, task.item.context - p.window) : 0;
    // A split's first place, its third and so on are one warpgroup's, whichever, so that its bits do not depend on what
    // the block did before.
    const int place = (warpgroup + places_before) % Shape::kWarpgroups;
    const int places = (task.item.num_pages + Shape::kPages - 1) / Shape::kPages;
    for (int i = place; i < places; i += Shape::kWarpgroups) {
      const int n = places_before + i;
      SeenPlaces seen[Shape::kPages];
#pragma unroll
      for (int k = 0; k < Shape::kPages; ++k) {
        const int page = i * Shape::kPages + k, start = (task.item.first_page + page) * kPageTokens;
        seen[k] = {seen_from - start, page < task.item.num_pages ? task.item.context - start : 0};
      }
      wait(pipe.full(n), Pipe::parity(n));
      rows.take(pipe.pages(n), pipe.scales(n), seen);
      if (lane == 0) arrive(pipe.empty(n));
      if (i == place) query.read(p, next, warp);
    }
    if (place >= places) query.read(p, next, warp);
    places_before += places;
    rows.reduce();
    post<Shape>(rows, place, shared);
    meet(1 + Shape::kWarpgroups, Shape::kConsumers);
    if (place == 0) {
      finish_split<Shape>(p, task, rows, shared);
      if (task.item.splits > 1 &&
          last_split(p.plan.arrivals + (std::int64_t{task.item.seq} * parts + task.work % parts), task.item.splits,
                     1 + warpgroup, reinterpret_cast<int*>(shared + Shape::kLast)))
        merge_splits<Shape>(p, task);
    }
    task = next;
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    decode_kernel(const __grid_constant__ AttentionParams p) {
  let_next_start();
  wait_for_kernels_before();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::byte shared[];
  const DecodePipe<Shape> pipe(shared);
  const int total = p.plan.counts[0] * DecodeTask::parts(p);
  if (static_cast<int>(blockIdx.x) >= total) return;
  const DecodeTask task(p, blockIdx.x);
  if (threadIdx.x == 0) pipe.make();
  __syncthreads();
  if (threadIdx.x >= Shape::kConsumers) {
    bring_pages<Shape>(p, pipe, task, total);
  } else {
    take_splits<Shape>(p, pipe, task, total, shared);
  }
#else
  __trap();
#endif
}

}  // namespace octavo::cuda::sm90
