#include "cuda/early_start.cuh"
#include "cuda/packs.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// exp(-g) beyond float32's range is infinity: the quotient is 0, and 0 times the gate is 0. `up` comes last, since up
// times the gate may be infinite.
__device__ float activate(Activation kind, float limit, float gate, float up) {
  switch (kind) {
    case Activation::silu:
      return up * (gate * sigmoid(gate));
    case Activation::gelu_tanh: {
      const float root = 0.7978845608028654f;  // sqrt(2 / pi)
      // 0.5 (1 + tanh(u)) = sigmoid(2u), which loses nothing where tanh is close to -1.
      return up * (gate * sigmoid(2.0f * root * (gate + 0.044715f * gate * gate * gate)));
    }
    case Activation::sigmoid:
      return up * sigmoid(gate);
    case Activation::clamped_swish: {
      const float g = gate > limit ? limit : gate;
      const float u = up < -limit ? -limit : up > limit ? limit : up;  // a NaN stays one
      return (u + 1.0f) * (g * sigmoid(1.702f * g));
    }
  }
  return 0.0f;
}

// N numbers a thread; N > 1 takes rows that are aligned.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    gate_kernel(Rows<T> gate, Rows<T> up, Activation kind, float limit, Rows<T> out, std::int64_t n) {
  let_next_start();
  wait_for_kernels_before();
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  const std::int64_t row = blockIdx.y;
  if (i >= n) return;
  const Pack<T, N> gates = pack_at<T, N>(gate.row(row), i * gate.step);
  const Pack<T, N> ups = pack_at<T, N>(up.row(row), i * up.step);
  Pack<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j)
    result.values[j] = from_float<T>(activate(kind, limit, to_float(gates.values[j]), to_float(ups.values[j])));
  pack_at<T, N>(out.row(row), i) = result;
}

}  // namespace

void gated_activation(cudaStream_t stream, const GatedActivationArgs& args) {
  const std::int64_t rows = args.out.size(0);
  const std::int64_t n = args.out.size(1);
  octavo::check(args.gate.size(0) == rows && args.gate.size(1) == n && args.up.size(0) == rows &&
                    args.up.size(1) == n && args.gate.dtype() == args.out.dtype() &&
                    args.up.dtype() == args.out.dtype() && rows <= 65535,
                "shapes of gated_activation");
  if (rows == 0) return;
  const bool packed = by_four(args.gate) && by_four(args.up) && by_four(args.out);
  const dim3 grid(blocks_for(n, kThreads * (packed ? 4 : 1)), static_cast<unsigned>(rows));
  visit_float(args.out.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto kernel = packed ? gate_kernel<T, 4> : gate_kernel<T, 1>;
    launch_early(stream, grid, kThreads, 0, kernel, rows_of<T>(args.gate), rows_of<T>(args.up), args.kind, args.limit,
                 rows_of<T>(args.out), n);
  });
}

}  // namespace octavo::cuda
