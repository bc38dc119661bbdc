// delta_rule in its recurrent form: a block a value head of a sequence walks over the tokens, a thread a column of the
// state.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/reduce.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kMaxKeyWidth = 1024;
constexpr float kEps = 1e-6f;

template <class T>
struct Heads {  // [tokens, heads, width]
  T* data = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;
  __device__ T* row(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};
template <class T>
Heads<T> heads_of(const Tensor& x) {
  return {reinterpret_cast<T*>(x.raw()), x.stride(0), x.stride(1)};
}

template <class T>
struct Delta {
  Heads<const T> q, k, v;
  Rows<const float> decay, beta;
  float* state = nullptr;  // f32 [records, heads, key_width, value_width]
  const std::int32_t* records = nullptr;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* context = nullptr;
  Heads<T> out;
  int key_width = 0, value_width = 0, values_of_key = 1;
};

template <class T>
__device__ void load_unit(const T* row, int width, float scale, float* to) {
  float squares = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    to[i] = to_float(row[i]);
    squares += to[i] * to[i];
  }
  const float factor = scale / sqrtf(sum_block(squares) + kEps);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) to[i] *= factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(Delta<T> delta) {
  __shared__ float q[kMaxKeyWidth], k[kMaxKeyWidth];
  const std::int64_t head = blockIdx.x;
  const int seq = static_cast<int>(blockIdx.y);
  const std::int64_t begin = delta.query_start[seq];
  const std::int64_t end = delta.query_start[seq + 1];
  const std::int64_t cells = std::int64_t{delta.key_width} * delta.value_width;
  float* state = delta.state + (delta.records[seq] * std::int64_t{gridDim.x} + head) * cells;
  if (delta.context[seq] == end - begin)  // columns belong to threads, here and below
    for (int c = static_cast<int>(threadIdx.x); c < delta.value_width; c += kThreads)
      for (int r = 0; r < delta.key_width; ++r) state[std::int64_t{r} * delta.value_width + c] = 0.0f;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t key_head = head / delta.values_of_key;
    __syncthreads();
    load_unit(delta.q.row(t, key_head), delta.key_width, 1.0f / sqrtf(static_cast<float>(delta.key_width)), q);
    load_unit(delta.k.row(t, key_head), delta.key_width, 1.0f, k);
    __syncthreads();
    const float decay = expf(delta.decay.row(t)[head]);
    const float beta = delta.beta.row(t)[head];
    for (int c = static_cast<int>(threadIdx.x); c < delta.value_width; c += kThreads) {
      float* column = state + c;
      float read = 0.0f;
      for (int r = 0; r < delta.key_width; ++r)
        read = fmaf(k[r], decay * column[std::int64_t{r} * delta.value_width], read);
      const float change = beta * (to_float(delta.v.row(t, head)[c]) - read);
      float sum = 0.0f;
      for (int r = 0; r < delta.key_width; ++r) {
        float& cell = column[std::int64_t{r} * delta.value_width];
        cell = fmaf(k[r], change, decay * cell);
        sum = fmaf(q[r], cell, sum);
      }
      delta.out.row(t, head)[c] = from_float<T>(sum);
    }
  }
}

}  // namespace

void delta_rule(cudaStream_t stream, const DeltaRuleArgs& args) {
  const std::int64_t heads = args.v.size(1);
  const std::int64_t key_width = args.k.size(2);
  octavo::check(heads % args.k.size(1) == 0 && args.q.size(2) == key_width && args.state.contiguous() &&
                    args.state.size(1) == heads && args.state.size(2) == key_width &&
                    args.state.size(3) == args.v.size(2) && key_width <= kMaxKeyWidth &&
                    args.q.dtype() == args.v.dtype() && args.k.dtype() == args.v.dtype() &&
                    args.out.dtype() == args.v.dtype(),
                "shapes of delta_rule");
  if (args.batch.num_seqs == 0) return;
  const dim3 grid(static_cast<unsigned>(heads), static_cast<unsigned>(args.batch.num_seqs));
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
    delta.key_width = static_cast<int>(key_width);
    delta.value_width = static_cast<int>(args.v.size(2));
    delta.values_of_key = static_cast<int>(heads / args.k.size(1));
    delta_kernel<T><<<grid, kThreads, 0, stream>>>(delta);
  });
  check_launch();
}

}  // namespace octavo::cuda
