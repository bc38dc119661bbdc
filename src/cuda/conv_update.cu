#include <algorithm>

#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kConvThreads = 128;
constexpr int kMaxTaps = 8;
constexpr int kUsualTaps = 4;
constexpr int kTokens = 32;  // of a thread

struct Conv {
  const float* weight = nullptr;  // f32 [channels, taps]
  float* state = nullptr;         // f32 [records, channels, taps - 1]
  const std::int32_t* records = nullptr;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* context = nullptr;
  std::int64_t channels = 0;
  int taps = 0;
};

// A thread some tokens of a channel of a sequence; it keeps the channel's last inputs. The state belongs to the thread
// of the first ones, which reads it, and then leaves there what the whole step ends with. kTaps: that many; 0:
// conv.taps.
template <class T, int kTaps>
__global__ void __launch_bounds__(kConvThreads) conv_kernel(Rows<const T> x, Conv conv, Rows<T> out) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  if (channel >= conv.channels) return;
  const int seq = static_cast<int>(blockIdx.y);
  const std::int64_t begin = conv.query_start[seq];
  const std::int64_t end = conv.query_start[seq + 1];
  const std::int64_t first = begin + std::int64_t{blockIdx.z} * kTokens;
  if (blockIdx.z > 0 && first >= end) return;
  const int taps = kTaps > 0 ? kTaps : conv.taps, past = taps - 1;
  const auto input = [&](std::int64_t t) { return to_float(x.row(t)[channel]); };
  float weight[kMaxTaps] = {};
  float inputs[kMaxTaps] = {};  // the newest in the last place that is used
  for (int j = 0; j < taps; ++j) weight[j] = conv.weight[channel * taps + j];
  if (blockIdx.z > 0) {
    for (int j = 0; j < past; ++j) inputs[j + 1] = input(first - past + j);
  } else {
    float* state = conv.state + (conv.records[seq] * conv.channels + channel) * past;
    const bool fresh = conv.context[seq] == end - begin;
    for (int j = 0; j < past; ++j) inputs[j + 1] = fresh ? 0.0f : state[j];
    for (int j = 0; j < past; ++j) {
      const std::int64_t of_both = end - begin + j;  // in the inputs before and the step's
      float last = 0.0f;
      for (int i = 0; i < past; ++i)
        if (i == of_both) last = inputs[i + 1];
      state[j] = of_both < past ? last : input(begin + of_both - past);
    }
  }
  for (std::int64_t t = first; t < min(first + kTokens, end); ++t) {
    for (int j = 0; j < past; ++j) inputs[j] = inputs[j + 1];
    inputs[past] = input(t);
    float sum = 0.0f;
    for (int j = 0; j < taps; ++j) sum = fmaf(weight[j], inputs[j], sum);
    out.row(t)[channel] = from_float<T>(sum / (1.0f + expf(-sum)));
  }
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
  const dim3 grid(blocks_for(channels, kConvThreads), static_cast<unsigned>(args.batch.num_seqs),
                  blocks_for(std::max(1, args.batch.max_query), kTokens));
  visit_float(args.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto kernel = taps == kUsualTaps ? conv_kernel<T, kUsualTaps> : conv_kernel<T, 0>;
    kernel<<<grid, kConvThreads, 0, stream>>>(rows_of<const T>(args.x), conv, rows_of<T>(args.out));
  });
  check_launch();
}

}  // namespace octavo::cuda
