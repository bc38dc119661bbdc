#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kRopeThreads = 256;
constexpr int kMaxPairs = 1024;

struct Turn {
  const std::int32_t* positions = nullptr;
  const float* inv_freq = nullptr;  // [pairs]
  float factor = 1.0f;
  bool interleaved = false;
  std::int64_t heads = 0, pairs = 0, head_stride = 0;
};

// A block a token. A head's row is read whole before it is written: interleaved pairs come out in other places.
template <class T>
__global__ void __launch_bounds__(kRopeThreads) rope_kernel(Rows<T> x, Turn turn) {
  __shared__ float first[kMaxPairs], second[kMaxPairs];
  const std::int64_t token = blockIdx.x;
  for (std::int64_t head = 0; head < turn.heads; ++head) {
    T* row = x.row(token) + head * turn.head_stride;
    for (std::int64_t i = threadIdx.x; i < turn.pairs; i += kRopeThreads) {
      const float a = to_float(row[turn.interleaved ? 2 * i : i]);
      const float b = to_float(row[turn.interleaved ? 2 * i + 1 : i + turn.pairs]);
      float sine, cosine;
      sincosf(__fmul_rn(static_cast<float>(turn.positions[token]), turn.inv_freq[i]), &sine, &cosine);
      cosine *= turn.factor;
      sine *= turn.factor;
      first[i] = a * cosine - b * sine;
      second[i] = b * cosine + a * sine;
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < turn.pairs; i += kRopeThreads) {
      row[i] = from_float<T>(first[i]);
      row[i + turn.pairs] = from_float<T>(second[i]);
    }
    __syncthreads();
  }
}

}  // namespace

void rope(cudaStream_t stream, const RopeArgs& args) {
  if (args.rule.inv_freq.empty() || args.x.size(0) == 0) return;
  const std::int64_t pairs = args.rule.inv_freq.elements();
  octavo::check(args.positions.elements() == args.x.size(0) && 2 * pairs <= args.x.size(2) && pairs <= kMaxPairs,
                "shapes of rope");
  const Turn turn{
      ints(args.positions), floats(args.rule.inv_freq), args.rule.factor, args.rule.interleaved, args.x.size(1), pairs,
      args.x.stride(1)};
  visit_float(args.x.dtype(), [&](auto type) {
    using T = decltype(type);
    rope_kernel<T><<<static_cast<unsigned>(args.x.size(0)), kRopeThreads, 0, stream>>>(rows_of<T>(args.x), turn);
  });
  check_launch();
}

}  // namespace octavo::cuda
