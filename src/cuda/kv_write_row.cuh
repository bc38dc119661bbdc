// One row of q, k or v on its way to the cache, in the registers of a warp: kWide neighbouring numbers a lane, zeros
// beyond a narrower head's width, which is a multiple of 16 and so ends between lanes. Read, normed, turned by its
// position, rotated, all in float32; and what a launch of kv_write is told.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "cuda/page_layout.cuh"
#include "kv/view.h"

namespace octavo::cuda {

constexpr int kWriteRows = 16;
constexpr int kWriteWarps = 8;
constexpr int kWriteThreads = 32 * kWriteWarps;

struct WriteRows {  // of q, k or v; strides in numbers
  const __nv_bfloat16* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  const float* norm_weight = nullptr;
  float norm_eps = 0.0f;
  float norm_offset = 0.0f;
  bool normed = false;
};

struct WriteParams {
  WriteRows q, k, v;
  std::int32_t tokens = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t block_rows = kWriteRows;  // of tokens, that a block takes at most
  std::int32_t block_heads = 1;          // of q or k, that a block takes; of v one
  const float* inv_freq = nullptr;
  std::int32_t pairs = 0;
  float rope_factor = 1.0f;
  bool interleaved = false;
  std::int32_t width = 0;
  std::int32_t rotation_block = 1;  // numbers that are turned together; 1: none are
  float rotation_norm = 1.0f;       // 1 / sqrt(block), as hadamard() of kv/codec.h has it
  const std::int32_t* positions = nullptr;
  const std::int32_t* slots = nullptr;
  __nv_bfloat16* query = nullptr;
  std::int64_t query_token_stride = 0;
  std::int64_t query_head_stride = 0;
  PageLayout layout;
  KvElem key_elem = KvElem::bf16;
  KvElem value_elem = KvElem::bf16;
  const float* key_scales = nullptr;  // a scale a head, or null for kinds without
  const float* value_scales = nullptr;
  std::byte* pages = nullptr;
  std::int64_t page_bytes = 0;
  std::int32_t num_pages = 0;
  KvCounters* counters = nullptr;
};

template <int kWide>
struct WriteShared {
  union {
    float rows[kWriteWarps][32 * kWide];
    alignas(16) float2 angles[kWide <= 8 ? kWriteRows : 1][16 * kWide];  // of pairs, which wider heads do not have
  };
  alignas(16) std::uint8_t codes[kWriteRows][32 * kWide];
  std::uint32_t written_places[2];
  std::uint32_t saturated;
  std::uint32_t amax;
};

template <int kWide>
__device__ bool has_numbers(int width) {
  return static_cast<int>(threadIdx.x) % 32 * kWide < width;
}

// A lane's numbers as they were stored: asked for before the rows before are through.
template <int kWide>
struct StoredRow {
  using Piece = std::conditional_t<kWide == 2, std::uint32_t, std::conditional_t<kWide == 4, uint2, uint4>>;
  static constexpr int kPiece = sizeof(Piece) / 2;
  Piece pieces[kWide / kPiece];

  __device__ void ask(const WriteRows& rows, int width, int token, int head) {
    const bool there = has_numbers<kWide>(width);
    const __nv_bfloat16* from =
        rows.data + token * rows.token_stride + head * rows.head_stride + threadIdx.x % 32 * kWide;
#pragma unroll
    for (int i = 0; i < kWide / kPiece; ++i) pieces[i] = there ? reinterpret_cast<const Piece*>(from)[i] : Piece{};
  }
};

// Its numbers in float32, normed where the family has it.
template <int kWide>
__device__ void read_write_row(const StoredRow<kWide>& stored, const WriteRows& rows, int width, float (&x)[kWide]) {
  const int lane = threadIdx.x % 32;
  const auto* numbers = reinterpret_cast<const __nv_bfloat16*>(stored.pieces);
#pragma unroll
  for (int i = 0; i < kWide; ++i) x[i] = __bfloat162float(numbers[i]);
  if (!rows.normed) return;
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kWide; ++i) squares += x[i] * x[i];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  const float factor = 1.0f / sqrtf(squares / width + rows.norm_eps);
  const bool weighted = rows.norm_weight != nullptr && has_numbers<kWide>(width);
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    x[i] *= factor;
    if (weighted) x[i] *= rows.norm_weight[lane * kWide + i] + rows.norm_offset;
  }
}

// The angles of a token's position, for all heads of a row. Where the halves of whole heads are turned, a lane's
// numbers meet those of one other lane, and it holds the angles of its own. Otherwise members of a pair lie anywhere,
// and the row goes through shared memory. Products and sums are rounded one by one, as the processor's paths do it.
template <int kWide>
class WriteTurn {
 public:
  __device__ WriteTurn(const WriteParams& p, int token) : halves_(!p.interleaved && 2 * p.pairs == 32 * kWide) {
    if (p.pairs == 0) return;
    const float position = static_cast<float>(p.positions[token]);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      if (!halves_ && i >= kPairs) break;
      const int pair = halves_ ? threadIdx.x % 16 * kWide + i : pair_of(i);
      if (pair >= p.pairs) continue;
      sincosf(__fmul_rn(position, p.inv_freq[pair]), &sine_[i], &cosine_[i]);
      sine_[i] = __fmul_rn(sine_[i], p.rope_factor);
      cosine_[i] = __fmul_rn(cosine_[i], p.rope_factor);
    }
  }

  __device__ void apply(const WriteParams& p, float* row, float (&x)[kWide]) const {
    if (p.pairs == 0) return;
    halves_ ? apply_to_halves(x) : apply_through(p, row, x);
  }

 private:
  static constexpr int kPairs = (kWide + 1) / 2;  // a lane's share of at most 16 * kWide pairs
  __device__ static int pair_of(int i) { return static_cast<int>(threadIdx.x) % 32 + 32 * i; }

  __device__ void apply_to_halves(float (&x)[kWide]) const {
    const bool second = threadIdx.x % 32 >= 16;
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float other = __fmul_rn(__shfl_xor_sync(~0u, x[i], 16), sine_[i]);
      const float own = __fmul_rn(x[i], cosine_[i]);
      x[i] = second ? __fadd_rn(own, other) : __fsub_rn(own, other);
    }
  }

  __device__ void apply_through(const WriteParams& p, float* row, float (&x)[kWide]) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kWide; ++i) row[lane * kWide + i] = x[i];
    __syncwarp();
    float first[kPairs], second[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int pair = pair_of(i);
      if (pair >= p.pairs) continue;
      const float a = row[p.interleaved ? 2 * pair : pair];
      const float b = row[p.interleaved ? 2 * pair + 1 : pair + p.pairs];
      first[i] = __fsub_rn(__fmul_rn(a, cosine_[i]), __fmul_rn(b, sine_[i]));
      second[i] = __fadd_rn(__fmul_rn(b, cosine_[i]), __fmul_rn(a, sine_[i]));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int pair = pair_of(i);
      if (pair >= p.pairs) continue;
      row[pair] = first[i];
      row[pair + p.pairs] = second[i];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kWide; ++i) x[i] = row[lane * kWide + i];
    __syncwarp();
  }

  bool halves_;
  float cosine_[kWide] = {}, sine_[kWide] = {};
};

// hadamard() of kv/codec.h: the same sums in the same order. A block is at least 16 numbers, so whole lanes.
template <int kWide>
__device__ void rotate_write_row(int block, float norm, float (&x)[kWide]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 1; half < kWide; half *= 2)
#pragma unroll
    for (int i = 0; i < kWide; i += 2 * half)
#pragma unroll
      for (int j = i; j < i + half; ++j) {
        const float a = x[j], b = x[j + half];
        x[j] = __fadd_rn(a, b);
        x[j + half] = __fsub_rn(a, b);
      }
#pragma unroll
  for (int half = 1; half < 32; half *= 2)
#pragma unroll
    for (int i = 0; i < kWide && half * kWide < block; ++i) {
      const float other = __shfl_xor_sync(~0u, x[i], half);
      x[i] = (lane & half) != 0 ? __fsub_rn(other, x[i]) : __fadd_rn(x[i], other);
    }
#pragma unroll
  for (int i = 0; i < kWide; ++i) x[i] = __fmul_rn(x[i], norm);
}

}  // namespace octavo::cuda
