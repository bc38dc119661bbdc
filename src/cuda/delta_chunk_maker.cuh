// The warps that make chunks of the delta rule: they bring the tokens and prepare what does not hang on the state, two
// chunks ahead of the warps that use it.
#pragma once

#include "cuda/delta_chunk.cuh"
#include "cuda/portable/mma.cuh"

namespace octavo::cuda {

class ChunkMaker {
 public:
  __device__ ChunkMaker(const Delta<Bf16>& delta, const ChunkTask& task)
      : delta_(delta), task_(task), thread_(static_cast<int>(threadIdx.x)), lane_(thread_ % 32), warp_(thread_ / 32) {}

  __device__ void make_all(DeltaChunk* stages) {
    const int chunks = task_.chunks();
    load(0, stages[0]);
    for (int n = 0; n < chunks; ++n) {
      DeltaChunk& chunk = stages[n % kChunkStages];
      const float log = next_log_, beta = next_beta_;
      if (const int next = n + 1; next < chunks) {
        if (next >= kChunkStages) meet(kChunkEmpty + next % kChunkStages, kChunkThreads);
        load(next, stages[next % kChunkStages]);
        if (warp_ == kGateWarp) sum_logs(chunk, log, beta);
        portable::wait_copies<1>();
      } else {
        if (warp_ == kGateWarp) sum_logs(chunk, log, beta);
        portable::wait_copies<0>();
      }
      meet(kChunkMade, kChunkMakers);
      make(chunk);
      announce(kChunkFull + n % kChunkStages, kChunkThreads);
    }
  }

 private:
  // The gates of a token, by the lane of its number, wait in registers.
  __device__ void load(int chunk, DeltaChunk& to) {
    const std::int64_t first = task_.first(chunk);
    const int count = task_.count(chunk), key_head = task_.head / delta_.values_of_key;
    load_rows<kChunkKeyWidth>(delta_.k.row(first, key_head), delta_.k.token_stride, count, to.keys);
    load_rows<kChunkKeyWidth>(delta_.q.row(first, key_head), delta_.q.token_stride, count, to.queries);
    load_rows<kChunkColumns>(delta_.v.row(first, task_.head) + task_.first_column, delta_.v.token_stride, count,
                             to.values);
    portable::commit_copies();
    const bool there = lane_ < count;
    next_log_ = there ? delta_.decay.row(first + lane_)[task_.head] : 0.0f;
    next_beta_ = there ? delta_.beta.row(first + lane_)[task_.head] : 0.0f;
  }
  template <int kWidth>
  __device__ void load_rows(const Bf16* from, std::int64_t stride, int count, Bf16* to) const {
    constexpr int kPieces = kWidth / 8;
#pragma unroll
    for (int n = 0; n < kChunkTokens * kPieces / kChunkMakers; ++n) {
      const int i = n * kChunkMakers + thread_, row = i / kPieces, piece = i % kPieces;
      const bool there = row < count;
      portable::copy_async_or_zeros(shared_address(to + turned<kWidth>(row, piece)),
                                    from + (there ? row * stride : 0) + piece * 8, there);
    }
  }

  // Two warps take products of keys, two those of queries, 16 rows each.
  __device__ void make(DeltaChunk& chunk) const {
    const bool queries = warp_ >= 2;
    const int first_row = warp_ % 2 * 16;
    float products[4][4] = {};
    multiply(chunk, queries ? chunk.queries : chunk.keys, first_row, products);
    find_factors(chunk);
    meet(kChunkMade, kChunkMakers);
    store_faded(chunk, queries, first_row, products);
    if (warp_ == kGateWarp) store_gates(chunk);
    if (queries) return;
    __syncwarp();
    invert(chunk, first_row);
  }

  // Two threads a row.
  __device__ void find_factors(DeltaChunk& chunk) const {
    const int row = thread_ / 2 % kChunkTokens;
    const bool queries = thread_ / 2 >= kChunkTokens;
    const Bf16* const rows = queries ? chunk.queries : chunk.keys;
    float squares[4] = {};
#pragma unroll
    for (int i = 0; i < kChunkKeyWidth / 16; ++i) {
      const uint4 four = *reinterpret_cast<const uint4*>(rows + turned<kChunkKeyWidth>(row, 2 * i + thread_ % 2));
      const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float low = __uint_as_float(words[j] << 16), high = __uint_as_float(words[j] & 0xFFFF0000u);
        squares[j] = fmaf(low, low, fmaf(high, high, squares[j]));
      }
    }
    float sum = (squares[0] + squares[1]) + (squares[2] + squares[3]);
    sum += __shfl_xor_sync(~0u, sum, 1);
    const float factor = rsqrtf(sum + kDeltaEps) * (queries ? kRoot : 1.0f);
    if (thread_ % 2 == 0) (queries ? chunk.query_factors : chunk.key_factors)[row] = factor;
  }

  // A decay of exp(-1000) is zero.
  __device__ void sum_logs(DeltaChunk& chunk, float log, float beta) const {
    double sum = log < -1000.0f ? -1000.0 : static_cast<double>(log);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const double before = __shfl_up_sync(~0u, sum, step);
      if (lane_ >= step) sum += before;
    }
    chunk.logs[lane_] = static_cast<float>(sum);
    chunk.log_rests[lane_] = static_cast<float>(sum - static_cast<double>(static_cast<float>(sum)));
    chunk.betas[lane_] = beta;
  }

  // 16 rows with all keys: those beyond their last cost less than to ask.
  __device__ void multiply(const DeltaChunk& chunk, const Bf16* rows, int first_row, float (&products)[4][4]) const {
    const int matrix = lane_ / 8, row = lane_ % 8;
#pragma unroll
    for (int k = 0; k < kChunkKeyWidth / 16; ++k) {
      std::uint32_t a[4], b[2][4];
      portable::load_matrices(
          a, shared_address(rows + turned<kChunkKeyWidth>(first_row + matrix % 2 * 8 + row, 2 * k + matrix / 2)));
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        portable::load_matrices(
            b[pair],
            shared_address(chunk.keys + turned<kChunkKeyWidth>(16 * pair + matrix / 2 * 8 + row, 2 * k + matrix % 2)));
#pragma unroll
      for (int tile = 0; tile < 4; ++tile)
        portable::multiply_add<portable::Operand::bf16>(products[tile], a, b[tile / 2][tile % 2 * 2],
                                                        b[tile / 2][tile % 2 * 2 + 1]);
    }
  }

  // P of queries, -A of keys: no exponent is asked before it is computed, for branches cost more. (Those above the
  // diagonal may be infinite.)
  __device__ void store_faded(DeltaChunk& chunk, bool queries, int first_row, const float (&products)[4][4]) const {
    float(&to)[kChunkTokens][kChunkPad] = queries ? chunk.scores : chunk.solve;
    float factors[2], logs[2], rests[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = first_row + lane_ / 4 + 8 * half;
      factors[half] = queries ? chunk.query_factors[i] : -chunk.betas[i] * chunk.key_factors[i];
      logs[half] = chunk.logs[i], rests[half] = chunk.log_rests[i];
    }
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      if (8 * tile >= first_row + 16) break;
      const int j = 8 * tile + lane_ % 4 * 2;
      const auto two = [j](const float* x) { return *reinterpret_cast<const float2*>(x + j); };
      const float2 keys = two(chunk.key_factors), from_logs = two(chunk.logs), from_rests = two(chunk.log_rests);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int end = first_row + lane_ / 4 + 8 * half + (queries ? 1 : 0);  // of the tokens that count
        const float x = expf((logs[half] - from_logs.x) + (rests[half] - from_rests.x)) * keys.x * factors[half];
        const float y = expf((logs[half] - from_logs.y) + (rests[half] - from_rests.y)) * keys.y * factors[half];
        *reinterpret_cast<float2*>(&to[end - (queries ? 1 : 0)][j]) = {
            j < end ? products[tile][2 * half] * x : 0.0f, j + 1 < end ? products[tile][2 * half + 1] * y : 0.0f};
      }
    }
  }
  __device__ void store_gates(DeltaChunk& chunk) const {
    const float fade = expf(chunk.logs[lane_]);
    chunk.reads[lane_] = -chunk.betas[lane_] * fade * chunk.key_factors[lane_];
    chunk.gives[lane_] = fade * chunk.query_factors[lane_];
    chunk.writes[lane_] = chunk.key_factors[lane_] * chunk.faded(kChunkTokens - 1, lane_);
  }

  // A square of 16 on the diagonal, forwards, a lane a column.
  __device__ void invert(DeltaChunk& chunk, int first) const {
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      x[i] = i == lane_ ? 1.0f : 0.0f;
#pragma unroll
      for (int j = 0; j < i; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(&chunk.solve[first + i][first + j]);
        const float row[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = j; k < i && k < j + 4; ++k) x[i] = fmaf(row[k - j], x[k], x[i]);
      }
    }
    __syncwarp();
    if (lane_ >= 16) return;
#pragma unroll
    for (int i = 0; i < 16; ++i) chunk.solve[first + i][first + lane_] = x[i];
  }

  static constexpr int kGateWarp = 2;
  static constexpr float kRoot = 0.08838834764831845f;  // key_width^-1/2

  const Delta<Bf16>& delta_;
  const ChunkTask& task_;
  const int thread_, lane_, warp_;
  float next_log_ = 0.0f, next_beta_ = 0.0f;
};

}  // namespace octavo::cuda
