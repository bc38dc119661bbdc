#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kMaxTaps = 8;

struct Conv {
  const float* weight = nullptr;  // f32 [channels, taps]
  float* state = nullptr;         // f32 [records, channels, taps - 1]
  const std::int32_t* records = nullptr;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* context = nullptr;
  std::int64_t channels = 0;
  int taps = 0;
};

// A thread a channel of a sequence; it keeps the channel's last inputs and walks over the tokens.
template <class T>
__global__ void __launch_bounds__(kThreads) conv_kernel(Rows<const T> x, Conv conv, Rows<T> out) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel >= conv.channels) return;
  const int seq = static_cast<int>(blockIdx.y);
  const std::int64_t begin = conv.query_start[seq];
  const std::int64_t end = conv.query_start[seq + 1];
  const int past = conv.taps - 1;
  float* state = conv.state + (conv.records[seq] * conv.channels + channel) * past;
  const bool fresh = conv.context[seq] == end - begin;
  float weight[kMaxTaps] = {};
  float inputs[kMaxTaps] = {};  // the newest in the last place that is used
  for (int j = 0; j < conv.taps; ++j) weight[j] = conv.weight[channel * conv.taps + j];
  for (int j = 0; j < past; ++j) inputs[j + 1] = fresh ? 0.0f : state[j];
  for (std::int64_t t = begin; t < end; ++t) {
    for (int j = 0; j < past; ++j) inputs[j] = inputs[j + 1];
    inputs[past] = to_float(x.row(t)[channel]);
    float sum = 0.0f;
    for (int j = 0; j < conv.taps; ++j) sum = fmaf(weight[j], inputs[j], sum);
    out.row(t)[channel] = from_float<T>(sum / (1.0f + expf(-sum)));
  }
  for (int j = 0; j < past; ++j) state[j] = inputs[j + 1];
}

}  // namespace

void conv_update(cudaStream_t stream, const ConvUpdateArgs& args) {
  const std::int64_t channels = args.x.size(1);
  const std::int64_t taps = args.weight.size(1);
  octavo::check(args.weight.size(0) == channels && args.state.size(1) == channels && args.state.size(2) == taps - 1 &&
                    args.state.contiguous() && args.out.size(1) == channels && taps <= kMaxTaps &&
                    args.out.dtype() == args.x.dtype(),
                "shapes of conv_update");
  if (args.batch.num_seqs == 0) return;
  const Conv conv{floats(args.weight),          args.state.data<float>(), ints(args.records),
                  ints(args.batch.query_start), ints(args.batch.context), channels,
                  static_cast<int>(taps)};
  const dim3 grid(blocks_for(channels, kThreads), static_cast<unsigned>(args.batch.num_seqs));
  visit_float(args.x.dtype(), [&](auto type) {
    using T = decltype(type);
    conv_kernel<T><<<grid, kThreads, 0, stream>>>(rows_of<const T>(args.x), conv, rows_of<T>(args.out));
  });
  check_launch();
}

}  // namespace octavo::cuda
