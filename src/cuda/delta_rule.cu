// delta_rule, and its recurrent form: blocks walk over the tokens of a sequence, each with some columns of one value
// head's state, which it holds in registers. Four threads share a column by rows; unit keys and queries of some tokens
// at a time are made in shared memory. Keys wider than a thread's registers are served from memory, a thread a column.
#include <type_traits>

#include "cuda/check.h"
#include "cuda/delta_rule.cuh"
#include "cuda/numbers.cuh"
#include "cuda/reduce.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kDeltaThreads = 128;
constexpr int kMaxKeyWidth = 1024;
constexpr std::int32_t kLeastChunk = 16;  // tokens of the longest sequence from which on chunks take less time

template <class T>
__device__ void load_unit(const T* row, int width, float scale, float* to) {
  float squares = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kDeltaThreads) {
    to[i] = to_float(row[i]);
    squares += to[i] * to[i];
  }
  const float factor = scale / sqrtf(sum_block(squares) + kDeltaEps);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kDeltaThreads) to[i] *= factor;
}

constexpr int kHeldRows = 32;                     // of the state, a thread's
constexpr int kSharers = 4;                       // threads of a column
constexpr int kHeldWidth = kSharers * kHeldRows;  // of keys
constexpr int kWarpColumns = 32 / kSharers;
constexpr int kBlockColumns = kDeltaThreads / kSharers;
constexpr int kStepTokens = 16;

struct DeltaStep {
  alignas(16) float keys[kStepTokens][kHeldWidth];  // unit, zeros beyond their width; queries scaled besides
  alignas(16) float queries[kStepTokens][kHeldWidth];
  float values[kStepTokens][kBlockColumns];
  float decays[kStepTokens], betas[kStepTokens];
};

// A warp a row.
template <class T>
__device__ void load_held(const T* row, int width, float scale, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float x[kHeldWidth / 32], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeldWidth / 32; ++i) {
    x[i] = lane + 32 * i < width ? to_float(row[lane + 32 * i]) : 0.0f;
    squares += x[i] * x[i];
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  const float factor = scale / sqrtf(squares + kDeltaEps);
#pragma unroll
  for (int i = 0; i < kHeldWidth / 32; ++i) to[lane + 32 * i] = x[i] * factor;
}

// What `count` tokens from `first` on bring.
template <class T>
__device__ void load_step(const Delta<T>& delta, std::int64_t first, int count, std::int64_t head, int first_column,
                          DeltaStep& step) {
  const std::int64_t key_head = head / delta.values_of_key;
  const float root = 1.0f / sqrtf(static_cast<float>(delta.key_width));
  for (int i = static_cast<int>(threadIdx.x) / 32; i < 2 * count; i += kDeltaThreads / 32) {
    const int t = i / 2;
    if (i % 2 == 0)
      load_held(delta.k.row(first + t, key_head), delta.key_width, 1.0f, step.keys[t]);
    else
      load_held(delta.q.row(first + t, key_head), delta.key_width, root, step.queries[t]);
  }
  for (int i = static_cast<int>(threadIdx.x); i < count * kBlockColumns; i += kDeltaThreads) {
    const int t = i / kBlockColumns, c = i % kBlockColumns;
    const bool there = first_column + c < delta.value_width;
    step.values[t][c] = there ? to_float(delta.v.row(first + t, head)[first_column + c]) : 0.0f;
  }
  if (const int t = static_cast<int>(threadIdx.x); t < count) {
    step.decays[t] = expf(delta.decay.row(first + t)[head]);
    step.betas[t] = delta.beta.row(first + t)[head];
  }
}

__device__ float sum_of_sharers(float x) {
#pragma unroll
  for (int step = kWarpColumns; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// One token over a thread's rows of its column; the result is the whole column's.
__device__ float take_token(const DeltaStep& step, int t, int column, int first_row, float (&state)[kHeldRows]) {
  const float decay = step.decays[t];
  float keys[kHeldRows], sums[2] = {};
#pragma unroll
  for (int i = 0; i < kHeldRows; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(&step.keys[t][first_row + i]);
    keys[i] = four.x, keys[i + 1] = four.y, keys[i + 2] = four.z, keys[i + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < kHeldRows; ++i) {
    state[i] *= decay;
    sums[i % 2] = fmaf(keys[i], state[i], sums[i % 2]);
  }
  const float change = step.betas[t] * (step.values[t][column] - sum_of_sharers(sums[0] + sums[1]));
  sums[0] = sums[1] = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeldRows; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(&step.queries[t][first_row + i]);
    const float queries[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      state[i + j] = fmaf(keys[i + j], change, state[i + j]);
      sums[j % 2] = fmaf(queries[j], state[i + j], sums[j % 2]);
    }
  }
  return sum_of_sharers(sums[0] + sums[1]);
}

// blockIdx.x: of all heads, one after the other, so many columns each.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads, 3) held_delta_kernel(const __grid_constant__ Delta<T> delta) {
  __shared__ DeltaStep step;
  const int tiles = (delta.value_width + kBlockColumns - 1) / kBlockColumns;
  const int head = static_cast<int>(blockIdx.x) / tiles,
            first_column = static_cast<int>(blockIdx.x) % tiles * kBlockColumns;
  const int seq = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32;
  const int column = static_cast<int>(threadIdx.x) / 32 * kWarpColumns + lane % kWarpColumns;  // of the block
  const int first_row = lane / kWarpColumns * kHeldRows;
  const bool there = first_column + column < delta.value_width;
  const std::int64_t begin = delta.query_start[seq];
  const std::int64_t end = delta.query_start[seq + 1];
  const bool fresh = delta.context[seq] == end - begin;
  float* const cells = delta.state_of(seq, head) + first_column + column;
  float state[kHeldRows];
#pragma unroll
  for (int i = 0; i < kHeldRows; ++i) {
    const int row = first_row + i;
    state[i] = there && !fresh && row < delta.key_width ? cells[row * delta.value_width] : 0.0f;
  }
  for (std::int64_t first = begin; first < end; first += kStepTokens) {
    const int count = static_cast<int>(min(std::int64_t{kStepTokens}, end - first));
    __syncthreads();
    load_step(delta, first, count, head, first_column, step);
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      const float sum = take_token(step, t, column, first_row, state);
      if (there && first_row == 0) delta.out.row(first + t, head)[first_column + column] = from_float<T>(sum);
    }
  }
#pragma unroll
  for (int i = 0; i < kHeldRows; ++i)
    if (const int row = first_row + i; there && row < delta.key_width) cells[row * delta.value_width] = state[i];
}

template <class T>
__global__ void __launch_bounds__(kDeltaThreads, 8) delta_kernel(const __grid_constant__ Delta<T> delta) {
  __shared__ float q[kMaxKeyWidth], k[kMaxKeyWidth];
  const std::int64_t head = blockIdx.x;
  const int seq = static_cast<int>(blockIdx.y);
  const std::int64_t begin = delta.query_start[seq];
  const std::int64_t end = delta.query_start[seq + 1];
  float* state = delta.state_of(seq, head);
  if (delta.context[seq] == end - begin)  // columns belong to threads, here and below
    for (int c = static_cast<int>(threadIdx.x); c < delta.value_width; c += kDeltaThreads)
      for (int r = 0; r < delta.key_width; ++r) state[std::int64_t{r} * delta.value_width + c] = 0.0f;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t key_head = head / delta.values_of_key;
    __syncthreads();
    load_unit(delta.q.row(t, key_head), delta.key_width, 1.0f / sqrtf(static_cast<float>(delta.key_width)), q);
    load_unit(delta.k.row(t, key_head), delta.key_width, 1.0f, k);
    __syncthreads();
    const float decay = expf(delta.decay.row(t)[head]);
    const float beta = delta.beta.row(t)[head];
    for (int c = static_cast<int>(threadIdx.x); c < delta.value_width; c += kDeltaThreads) {
      float* column = state + c;
      float read = 0.0f;
#pragma unroll 2
      for (int r = 0; r < delta.key_width; ++r)
        read = fmaf(k[r], decay * column[std::int64_t{r} * delta.value_width], read);
      const float change = beta * (to_float(delta.v.row(t, head)[c]) - read);
      float sum = 0.0f;
#pragma unroll 2
      for (int r = 0; r < delta.key_width; ++r) {
        float& cell = column[std::int64_t{r} * delta.value_width];
        cell = fmaf(k[r], change, decay * cell);
        sum = fmaf(q[r], cell, sum);
      }
      delta.out.row(t, head)[c] = from_float<T>(sum);
    }
  }
}

template <class T>
void delta_tokens(cudaStream_t stream, const Delta<T>& delta, std::int32_t num_seqs) {
  const auto seqs = static_cast<unsigned>(num_seqs);
  if (delta.key_width <= kHeldWidth)
    held_delta_kernel<T>
        <<<dim3(delta.heads * blocks_for(delta.value_width, kBlockColumns), seqs), kDeltaThreads, 0, stream>>>(delta);
  else
    delta_kernel<T><<<dim3(delta.heads, seqs), kDeltaThreads, 0, stream>>>(delta);
}

}  // namespace

void delta_rule(cudaStream_t stream, const DeltaRuleArgs& args, bool deterministic) {
  const std::int64_t heads = args.v.size(1);
  const std::int64_t key_width = args.k.size(2);
  octavo::check(heads % args.k.size(1) == 0 && args.q.size(2) == key_width && args.state.contiguous() &&
                    args.state.size(1) == heads && args.state.size(2) == key_width &&
                    args.state.size(3) == args.v.size(2) && key_width <= kMaxKeyWidth &&
                    args.q.dtype() == args.v.dtype() && args.k.dtype() == args.v.dtype() &&
                    args.out.dtype() == args.v.dtype(),
                "shapes of delta_rule");
  if (args.batch.num_seqs == 0) return;
  visit_float(args.v.dtype(), [&](auto type) {
    using T = decltype(type);
    Delta<T> delta;
    delta.q = heads_of<const T>(args.q);
    delta.k = heads_of<const T>(args.k);
    delta.v = heads_of<const T>(args.v);
    delta.decay = rows_of<const float>(args.decay);
    delta.beta = rows_of<const float>(args.beta);
    delta.state = args.state.data<float>();
    delta.records = ints(args.records);
    delta.query_start = ints(args.batch.query_start);
    delta.context = ints(args.batch.context);
    delta.out = heads_of<T>(args.out);
    delta.heads = static_cast<int>(heads);
    delta.key_width = static_cast<int>(key_width);
    delta.value_width = static_cast<int>(args.v.size(2));
    delta.values_of_key = static_cast<int>(heads / args.k.size(1));
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      if (!deterministic && args.batch.max_query >= kLeastChunk && takes_delta_chunks(args)) {
        const std::int32_t decodes = args.batch.num_decodes, rest = args.batch.num_seqs - decodes;
        if (decodes > 0) delta_tokens(stream, delta, decodes);
        if (rest > 0) delta_chunks(stream, delta.from(decodes), rest);
        return;
      }
    delta_tokens(stream, delta, args.batch.num_seqs);
  });
  check_launch();
}

}  // namespace octavo::cuda
