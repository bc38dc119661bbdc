// The device side of kv_write. A block takes 16 token rows, or 8 of few tokens, of some heads of q or k, or of one of
// v; a warp prepares a row at a time in registers (kWide numbers a lane, neighbours), in the order norm, rope,
// rotation, then codes. The angles of a token serve all heads of its block, whose rows are asked for some at once. Many
// rows of q and k go several to a warp where their rope allows it (kv_write_pairs.cuh).
//
// V in 8 bits is collected in shared memory and leaves in pieces of 16 tokens where the rows fill such a piece.
#pragma once

#include <cuda_fp8.h>

#include "cuda/early_start.cuh"
#include "cuda/kv_write_pairs.cuh"
#include "cuda/kv_write_row.cuh"
#include "kv/codec.h"

namespace octavo::cuda {

// What a thread noticed on its numbers.
struct WriteNotice {
  std::uint32_t saturated = 0;
  float amax = 0.0f;
};

// encode8() for two numbers.
__device__ inline void encode_two(KvElem elem, float a, float b, std::uint8_t* codes) {
#if __CUDA_ARCH__ >= 890
  const __nv_fp8x2_storage_t two =
      __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, elem == KvElem::e5m2 ? __NV_E5M2 : __NV_E4M3);
  codes[0] = static_cast<std::uint8_t>(two & 0xFF);
  codes[1] = static_cast<std::uint8_t>(two >> 8);
#else
  codes[0] = encode8(elem, a);
  codes[1] = encode8(elem, b);
#endif
}

// A lane's numbers of a row that kLanes of them share.
template <int kLanes, int kWide>
__device__ void encode_write_row(KvElem elem, float scale, const float (&x)[kWide], bool counted, std::uint8_t* codes,
                                 std::uint16_t* scale_to, WriteNotice& notice) {
  std::uint32_t saturated = 0;
  if (elem == KvElem::int8) {
    std::uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < kWide; ++i) most = max(most, __float_as_uint(x[i]) & 0x7FFFFFFFu);
    if constexpr (kLanes == 32) {
      most = __reduce_max_sync(~0u, most);
    } else {
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
    }
    const std::uint16_t bits = int8_scale(__uint_as_float(most));
    const float inverse = int8_inverse(bits);
    const float limit = 127.0f * f32_from_bf16(bits);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      codes[i] = static_cast<std::uint8_t>(int8_from_f32(x[i], inverse));
      saturated += fabsf(x[i]) > limit && bits != 0;
    }
    if (threadIdx.x % kLanes == 0 && scale_to != nullptr) *scale_to = bits;
  } else {
    const float most = max_value(elem);
    float scaled[kWide];
#pragma unroll
    for (int i = 0; i < kWide; ++i) scaled[i] = x[i];
    if (scale != 1.0f) {
#pragma unroll
      for (float& number : scaled) number = __fdiv_rn(number, scale);
    }
#pragma unroll
    for (int i = 0; i < kWide; ++i) saturated += fabsf(scaled[i]) > most;
#pragma unroll
    for (int i = 0; i < kWide; i += 2) encode_two(elem, scaled[i], scaled[i + 1], codes + i);
  }
  if (counted) notice.saturated += saturated;
}

// Byte `b` of a token's row in blocks that lie token after token, or in pieces.
template <int kWide>
__device__ int row_offset(const PageLayout& layout, int place, int b, int elem_size) {
  return layout.in_pieces ? piece_offset(place, b) : token_offset(place, b, 32 * kWide * elem_size);
}

// A lane's neighbours in such a block.
template <int kWide>
__device__ void store_write_row(const PageLayout& layout, std::byte* block, int place, int elem_size,
                                const std::uint8_t* codes, const float (&x)[kWide]) {
  const int lane = threadIdx.x % 32;
  if (!has_numbers<kWide>(layout.width)) return;
  if (elem_size == 1) {
    std::byte* to = block + row_offset<kWide>(layout, place, lane * kWide, 1);
    if constexpr (kWide == 2) *reinterpret_cast<uchar2*>(to) = make_uchar2(codes[0], codes[1]);
    if constexpr (kWide >= 4) {
#pragma unroll
      for (int i = 0; i < kWide; i += 4)
        *reinterpret_cast<uchar4*>(to + i) = make_uchar4(codes[i], codes[i + 1], codes[i + 2], codes[i + 3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kWide; i += 2) {
    const std::uint32_t pair = bf16_from_f32(x[i]) | static_cast<std::uint32_t>(bf16_from_f32(x[i + 1])) << 16;
    *reinterpret_cast<std::uint32_t*>(block + row_offset<kWide>(layout, place, 2 * (lane * kWide + i), 2)) = pair;
  }
}

// Zeroes what this launch does not write of a page whose first slot it writes: V of an earlier holder may be a NaN
// there.
template <int kWide>
__device__ void clear_rest_of_page(const WriteParams& p, WriteShared<kWide>& shared, int token, int head) {
  const int slot = p.slots[token];
  const int i = threadIdx.x;
  const bool follows = i >= kPageTokens || (token + i < p.tokens && p.slots[token + i] == slot + i);
  if (__syncthreads_and(follows)) return;
  if (i < 2) shared.written_places[i] = 0;
  __syncthreads();
  for (int t = i; t < p.tokens; t += kWriteThreads)
    if (p.slots[t] / kPageTokens == slot / kPageTokens)
      atomicOr(&shared.written_places[p.slots[t] % kPageTokens / 32], 1u << p.slots[t] % 32);
  __syncthreads();
  std::byte* base = p.pages + slot / kPageTokens * p.page_bytes + std::int64_t{head} * p.layout.head_bytes;
  for (int n = i; n < kPageTokens * p.width; n += kWriteThreads) {
    const int place = n % kPageTokens, d = n / kPageTokens;
    if ((shared.written_places[place / 32] >> place % 32 & 1) != 0) continue;
    if (p.layout.value_bytes == 1) {
      base[p.layout.value_block + transposed_offset(place, d)] = std::byte{0};
    } else {
      *reinterpret_cast<std::uint16_t*>(base + p.layout.value_block + row_offset<kWide>(p.layout, place, 2 * d, 2)) = 0;
    }
    if (d == 0 && p.value_elem == KvElem::int8)
      *reinterpret_cast<std::uint16_t*>(base + p.layout.value_scales + 2 * place) = 0;
  }
  __syncthreads();
}

// Of all pages that rows of this block begin: lanes look at a row each.
template <int kWide>
__device__ void clear_begun_pages(const WriteParams& p, WriteShared<kWide>& shared, int first, int rows, int head) {
  const int lane = threadIdx.x % 32;
  const int slot = lane < rows ? p.slots[first + lane] : 0;
  unsigned begun = __ballot_sync(~0u, slot >= kPageTokens && slot % kPageTokens == 0);
  for (; begun != 0; begun &= begun - 1) clear_rest_of_page<kWide>(p, shared, first + __ffs(begun) - 1, head);
}

template <int kWide>
__device__ void store_transposed(const WriteParams& p, const WriteShared<kWide>& shared, int first, int rows,
                                 int head) {
  const int slot = p.slots[first];
  const bool follows =
      static_cast<int>(threadIdx.x) >= rows || p.slots[first + threadIdx.x] == slot + static_cast<int>(threadIdx.x);
  const bool whole = __syncthreads_and(follows) && rows == kWriteRows && slot % kWriteRows == 0;
  const std::int64_t block = std::int64_t{head} * p.layout.head_bytes + p.layout.value_block;
  if (whole) {
    std::byte* to = p.pages + slot / kPageTokens * p.page_bytes + block;
    for (int d = threadIdx.x; d < p.width; d += kWriteThreads) {
      std::uint32_t words[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        words[c] = shared.codes[2 * c][d] | shared.codes[2 * c + 1][d] << 8 | shared.codes[2 * c + 8][d] << 16 |
                   static_cast<std::uint32_t>(shared.codes[2 * c + 9][d]) << 24;
      *reinterpret_cast<uint4*>(to + transposed_offset(slot % kPageTokens, d)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
    return;
  }
  for (int n = threadIdx.x; n < rows * 32 * kWide; n += kWriteThreads) {
    const int row = n / (32 * kWide), d = n % (32 * kWide);
    if (d >= p.width) continue;
    const int to = p.slots[first + row];
    p.pages[to / kPageTokens * p.page_bytes + block + transposed_offset(to % kPageTokens, d)] =
        static_cast<std::byte>(shared.codes[row][d]);
  }
}

template <int kWide>
__device__ void write_query_row(const WriteParams& p, int token, int head, float (&x)[kWide]) {
  if (p.rotation_block > 1) rotate_write_row<kWide>(p.rotation_block, p.rotation_norm, x);
  if (!has_numbers<kWide>(p.width)) return;
  __nv_bfloat16* to = p.query + token * p.query_token_stride + head * p.query_head_stride + threadIdx.x % 32 * kWide;
#pragma unroll
  for (int i = 0; i < kWide; i += 2) *reinterpret_cast<__nv_bfloat162*>(to + i) = __floats2bfloat162_rn(x[i], x[i + 1]);
}

// One row of K, turned, or of V; V in 8 bits stops in shared.codes.
template <int kWide>
__device__ void write_cache_row(const WriteParams& p, WriteShared<kWide>& shared, bool key, int token, int row,
                                int head, float (&x)[kWide], WriteNotice& notice) {
  if (key && p.rotation_block > 1) rotate_write_row<kWide>(p.rotation_block, p.rotation_norm, x);
  const int slot = p.slots[token];
  if (slot < 0 || slot / kPageTokens >= p.num_pages) __trap();
  const bool counted = slot >= kPageTokens;  // page 0 takes padding
  if (counted) {
#pragma unroll
    for (int i = 0; i < kWide; ++i) notice.amax = fmaxf(notice.amax, fabsf(x[i]));
  }
  std::byte* base = p.pages + slot / kPageTokens * p.page_bytes + std::int64_t{head} * p.layout.head_bytes;
  const int place = slot % kPageTokens;
  const KvElem elem = key ? p.key_elem : p.value_elem;
  const float* scales = key ? p.key_scales : p.value_scales;
  std::uint8_t codes[kWide];
  if (elem_bytes(elem) == 1)
    encode_write_row<32>(
        elem, scales != nullptr ? scales[head] : 1.0f, x, counted, codes,
        reinterpret_cast<std::uint16_t*>(base + (key ? p.layout.key_scales : p.layout.value_scales)) + place, notice);
  if (key || elem == KvElem::bf16) {
    store_write_row<kWide>(p.layout, base + (key ? 0 : p.layout.value_block), place, elem_bytes(elem), codes, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < kWide; ++i) shared.codes[row][threadIdx.x % 32 * kWide + i] = codes[i];
}

// A row of K whose halves were turned by each other, with those of other heads.
template <int kWide>
__device__ void write_key_pairs(const WriteParams& p, int token, int head, bool there, const float (&x)[kPairNumbers],
                                WriteNotice& notice) {
  using Lanes = PairLanes<kWide>;
  const int slot = p.slots[token];
  if (slot < 0 || slot / kPageTokens >= p.num_pages) __trap();
  const bool counted = there && slot >= kPageTokens;
  if (counted) {
#pragma unroll
    for (int i = 0; i < kPairNumbers; ++i) notice.amax = fmaxf(notice.amax, fabsf(x[i]));
  }
  const int own = there ? head : 0;
  std::byte* base = p.pages + slot / kPageTokens * p.page_bytes + std::int64_t{own} * p.layout.head_bytes;
  const int place = slot % kPageTokens, size = elem_bytes(p.key_elem);
  const auto at = [&](int half) {
    return base + row_offset<kWide>(p.layout, place, (half * Lanes::half + Lanes::number()) * size, size);
  };
  if (size == 2) {
    if (!there) return;
    *reinterpret_cast<uint4*>(at(0)) = bf16_of(x);
    *reinterpret_cast<uint4*>(at(1)) = bf16_of(x + 8);
    return;
  }
  alignas(8) std::uint8_t codes[kPairNumbers];
  auto* scale_to = reinterpret_cast<std::uint16_t*>(base + p.layout.key_scales) + place;
  encode_write_row<Lanes::lanes>(p.key_elem, p.key_scales != nullptr ? p.key_scales[own] : 1.0f, x, counted, codes,
                                 there ? scale_to : nullptr, notice);
  if (!there) return;
  *reinterpret_cast<uint2*>(at(0)) = *reinterpret_cast<const uint2*>(codes);
  *reinterpret_cast<uint2*>(at(1)) = *reinterpret_cast<const uint2*>(codes + 8);
}

// Rows of q or k that this warp takes: visit(row, head, x) gets each turned.
template <int kWide, class Visit>
__device__ void for_turned_rows(const WriteParams& p, WriteShared<kWide>& shared, const WriteRows& from, int first,
                                int rows, int first_head, int end_head, const Visit& visit) {
  constexpr int kAhead = kWide <= 4 ? 4 : kWide == 8 ? 2 : 1;
  const int warp = threadIdx.x / 32;
  StoredRow<kWide> stored[kAhead];
  const auto ask = [&](StoredRow<kWide>& to, int row, int head) {
    for (; head >= end_head; head += first_head - end_head) row += kWriteWarps;
    if (row < rows && head < end_head) to.ask(from, p.width, first + row, head);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ask(stored[i], warp, first_head + i);
#pragma unroll 1
  for (int row = warp; row < rows; row += kWriteWarps) {
    const WriteTurn<kWide> turn(p, first + row);
#pragma unroll 1
    for (int head = first_head; head < end_head; ++head) {
      float x[kWide];
      read_write_row<kWide>(stored[0], from, p.width, x);
#pragma unroll
      for (int i = 0; i + 1 < kAhead; ++i) stored[i] = stored[i + 1];
      ask(stored[kAhead - 1], row, head + kAhead);
      turn.apply(p, shared.rows[warp], x);
      visit(row, head, x);
    }
  }
}

template <int kWide>
__device__ void count_writes(const WriteParams& p, WriteShared<kWide>& shared, bool key, int first, int rows, int head,
                             const WriteNotice& notice) {
  if (p.counters == nullptr) return;
  const std::uint32_t saturated = __reduce_add_sync(~0u, notice.saturated);
  const std::uint32_t amax = __reduce_max_sync(~0u, __float_as_uint(notice.amax));
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&shared.saturated, saturated);
    atomicMax(&shared.amax, amax);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  float* shown = key ? &p.counters->key_amax : &p.counters->value_amax;
  if (shared.saturated > 0) atomicAdd(reinterpret_cast<unsigned long long*>(&p.counters->saturated), shared.saturated);
  if (__uint_as_float(shared.amax) > *const_cast<volatile float*>(shown))
    atomicMax(reinterpret_cast<unsigned int*>(shown), shared.amax);
  if (key || head != 0) return;  // one block speaks for all heads
  unsigned long long counted = 0;
  for (int row = 0; row < rows; ++row) counted += p.slots[first + row] >= kPageTokens;
  atomicAdd(reinterpret_cast<unsigned long long*>(&p.counters->written), counted * p.kv_heads * 2 * p.layout.width);
}

// kPairs: rows of q and k go several at once, which WriteParams must allow.
template <int kWide, bool kPairs>
__global__ void __launch_bounds__(kWriteThreads, kPairs       ? 3
                                                 : kWide <= 4 ? 4
                                                 : kWide == 8 ? 2
                                                              : 1)
    kv_write_kernel(const __grid_constant__ WriteParams p) {
  __shared__ WriteShared<kWide> shared;
  // In this order: the blocks of attention would settle where the projection's have ended, not evenly.
  wait_for_kernels_before();
  let_next_start();
  const int first = blockIdx.x * p.block_rows;
  const int rows = min(p.block_rows, p.tokens - first);
  const int query_blocks = (p.q_heads + p.block_heads - 1) / p.block_heads;
  const int key_blocks = (p.kv_heads + p.block_heads - 1) / p.block_heads;
  int part = blockIdx.y;
  if (part < query_blocks) {
    const int head = part * p.block_heads;
    const int end = min(head + p.block_heads, p.q_heads);
    if constexpr (kPairs) {
      for_turned_pairs<kWide>(p, shared, p.q, first, rows, head, end,
                              [&](int row, int at, bool there, float(&x)[kPairNumbers]) {
                                write_query_pairs<kWide>(p, first + row, at, there, x);
                              });
    } else {
      for_turned_rows<kWide>(p, shared, p.q, first, rows, head, end,
                             [&](int row, int at, float(&x)[kWide]) { write_query_row<kWide>(p, first + row, at, x); });
    }
    return;
  }
  part -= query_blocks;
  const bool key = part < key_blocks;
  const int head = key ? part * p.block_heads : part - key_blocks;
  if (threadIdx.x == 0) shared.saturated = shared.amax = 0;
  __syncthreads();
  WriteNotice notice;
  if (key) {
    const int end = min(head + p.block_heads, p.kv_heads);
    if constexpr (kPairs) {
      for_turned_pairs<kWide>(p, shared, p.k, first, rows, head, end,
                              [&](int row, int at, bool there, float(&x)[kPairNumbers]) {
                                write_key_pairs<kWide>(p, first + row, at, there, x, notice);
                              });
    } else {
      for_turned_rows<kWide>(p, shared, p.k, first, rows, head, end, [&](int row, int at, float(&x)[kWide]) {
        write_cache_row<kWide>(p, shared, true, first + row, row, at, x, notice);
      });
    }
  } else {
    constexpr int kEach = kWriteRows / kWriteWarps;
    StoredRow<kWide> stored[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (const int row = threadIdx.x / 32 + i * kWriteWarps; row < rows)
        stored[i].ask(p.v, p.width, first + row, head);
    clear_begun_pages<kWide>(p, shared, first, rows, head);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = threadIdx.x / 32 + i * kWriteWarps;
      if (row >= rows) break;
      float x[kWide];
      read_write_row<kWide>(stored[i], p.v, p.width, x);
      write_cache_row<kWide>(p, shared, false, first + row, row, head, x, notice);
    }
  }
  __syncthreads();
  if (!key && p.layout.value_bytes == 1) store_transposed<kWide>(p, shared, first, rows, head);
  count_writes<kWide>(p, shared, key, first, rows, head, notice);
}

}  // namespace octavo::cuda
