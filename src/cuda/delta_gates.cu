#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kDeltaGateThreads = 128;

struct Gates {
  const float* a_log = nullptr;  // f32 [heads]
  const float* dt_bias = nullptr;
  std::int64_t heads = 0;
};

// A block of threads a token, a thread a head.
__global__ void __launch_bounds__(kDeltaGateThreads)
    gates_kernel(Rows<const float> a, Rows<const float> b, Gates gates, Rows<float> decay, Rows<float> beta) {
  const std::int64_t head = std::int64_t{blockIdx.y} * kDeltaGateThreads + threadIdx.x;
  if (head >= gates.heads) return;
  const std::int64_t token = blockIdx.x;
  const float x = a.row(token)[head] + gates.dt_bias[head];
  const float softplus = fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
  const float gate = b.row(token)[head];
  decay.row(token)[head] = -expf(gates.a_log[head]) * softplus;
  beta.row(token)[head] = 1.0f / (1.0f + expf(-gate));
}

}  // namespace

void delta_gates(cudaStream_t stream, const DeltaGatesArgs& args) {
  const std::int64_t tokens = args.a.size(0);
  const std::int64_t heads = args.a.size(1);
  for (const Tensor* x : {&args.a, &args.b, &args.decay, &args.beta})
    octavo::check(x->size(0) == tokens && x->size(1) == heads && x->dtype() == DType::f32, "shapes of delta_gates");
  octavo::check(args.a_log.elements() == heads && args.dt_bias.elements() == heads, "shapes of delta_gates");
  if (tokens == 0) return;
  const Gates gates{floats(args.a_log), floats(args.dt_bias), heads};
  const dim3 grid(static_cast<unsigned>(tokens), blocks_for(heads, kDeltaGateThreads));
  gates_kernel<<<grid, kDeltaGateThreads, 0, stream>>>(rows_of<const float>(args.a), rows_of<const float>(args.b),
                                                       gates, rows_of<float>(args.decay), rows_of<float>(args.beta));
  check_launch();
}

}  // namespace octavo::cuda
