#include "cuda/activation.cuh"
#include "cuda/early_start.cuh"
#include "cuda/packs.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kGatedThreads = 256;

// N numbers a thread; N > 1 takes rows that are aligned.
template <class T, int N>
__global__ void __launch_bounds__(kGatedThreads) gate_kernel(Rows<T> gate, Rows<T> up, Activation kind, float limit,
                                                             Rows<T> out, std::int64_t rows, std::int64_t n) {
  let_next_start();
  wait_for_kernels_before();
  const std::int64_t i = (std::int64_t{blockIdx.x} * kGatedThreads + threadIdx.x) * N;
  if (i >= n) return;
#pragma unroll 1
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Pack<T, N> gates = pack_at<T, N>(gate.row(row), i * gate.step);
    const Pack<T, N> ups = pack_at<T, N>(up.row(row), i * up.step);
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j)
      result.values[j] = from_float<T>(activate(kind, limit, to_float(gates.values[j]), to_float(ups.values[j])));
    pack_at<T, N>(out.row(row), i) = result;
  }
}

}  // namespace

void gated_activation(cudaStream_t stream, const GatedActivationArgs& args) {
  const std::int64_t rows = args.out.size(0);
  const std::int64_t n = args.out.size(1);
  octavo::check(args.gate.size(0) == rows && args.gate.size(1) == n && args.up.size(0) == rows &&
                    args.up.size(1) == n && args.gate.dtype() == args.out.dtype() &&
                    args.up.dtype() == args.out.dtype(),
                "shapes of gated_activation");
  if (rows == 0) return;
  visit_float(args.out.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int kPack = 16 / sizeof(T);
    const bool packed = by_pack(args.gate, kPack) && by_pack(args.up, kPack) && by_pack(args.out, kPack);
    const dim3 grid(blocks_for(n, kGatedThreads * (packed ? kPack : 1)), grid_rows(rows));
    const auto kernel = packed ? gate_kernel<T, kPack> : gate_kernel<T, 1>;
    launch_early(stream, grid, kGatedThreads, 0, kernel, rows_of<T>(args.gate), rows_of<T>(args.up), args.kind,
                 args.limit, rows_of<T>(args.out), rows, n);
  });
}

}  // namespace octavo::cuda
