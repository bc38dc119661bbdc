// gather, add, scale, absmax: one thread a number.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kElementThreads = 256;

dim3 grid_of(std::int64_t rows, std::int64_t n) { return dim3(blocks_for(n, kElementThreads), grid_rows(rows)); }

__device__ std::int64_t column() { return std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x; }

template <class T>
__global__ void gather_kernel(Rows<T> x, const std::int32_t* index, Rows<T> out, std::int64_t rows, std::int64_t n) {
  const std::int64_t i = column();
  if (i >= n) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) out.row(row)[i] = x.row(index[row])[i];
}

template <class T, class B>
__global__ void add_kernel(Rows<T> a, Rows<B> b, Rows<T> out, std::int64_t rows, std::int64_t n) {
  const std::int64_t i = column();
  if (i >= n) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y)
    out.row(row)[i] = from_float<T>(to_float(a.row(row)[i]) + to_float(b.row(row)[i]));
}

template <class T, class Out>
__global__ void scale_kernel(Rows<T> x, const float* weight, float factor, float soft_cap, Rows<Out> out,
                             std::int64_t rows, std::int64_t n) {
  const std::int64_t i = column();
  if (i >= n) return;
  const float by = weight == nullptr ? factor : factor * *weight;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float y = to_float(x.row(row)[i]) * by;
    if (soft_cap > 0.0f) y = soft_cap * tanhf(y / soft_cap);
    out.row(row)[i] = from_float<Out>(y);
  }
}

// A block a token and head. Magnitudes are not negative: they order as their bits do. A NaN raises nothing.
template <class T>
__global__ void absmax_kernel(Rows<T> x, std::int64_t head_stride, std::int64_t width, int* out) {
  const T* row = x.row(blockIdx.x) + blockIdx.y * head_stride;
  float largest = 0.0f;
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, fabsf(to_float(row[i])));
  for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  if (threadIdx.x == 0) atomicMax(out + blockIdx.y, __float_as_int(largest));
}

}  // namespace

void gather(cudaStream_t stream, const GatherArgs& args) {
  const std::int64_t n = args.x.size(1);
  octavo::check(
      args.out.size(0) == args.index.elements() && args.out.size(1) == n && args.out.dtype() == args.x.dtype(),
      "shapes of gather");
  if (args.out.size(0) == 0) return;
  const dim3 grid = grid_of(args.out.size(0), n);
  if (dtype_info(args.x.dtype()).block_bytes == 4) {
    gather_kernel<<<grid, kElementThreads, 0, stream>>>(rows_of<std::int32_t>(args.x), ints(args.index),
                                                        rows_of<std::int32_t>(args.out), args.out.size(0), n);
  } else {
    octavo::check(dtype_info(args.x.dtype()).block_bytes == 2, "rows to gather are of two or four bytes a number");
    gather_kernel<<<grid, kElementThreads, 0, stream>>>(rows_of<std::int16_t>(args.x), ints(args.index),
                                                        rows_of<std::int16_t>(args.out), args.out.size(0), n);
  }
  check_launch();
}

void add(cudaStream_t stream, const AddArgs& args) {
  const std::int64_t rows = args.a.size(0);
  const std::int64_t n = args.a.size(1);
  octavo::check(args.b.size(0) == rows && args.b.size(1) == n && args.out.size(0) == rows && args.out.size(1) == n &&
                    args.out.dtype() == args.a.dtype(),
                "shapes of add");
  if (rows == 0) return;
  visit_float(args.a.dtype(), [&](auto type) {
    visit_float(args.b.dtype(), [&](auto added) {
      using T = decltype(type);
      using B = decltype(added);
      add_kernel<T, B><<<grid_of(rows, n), kElementThreads, 0, stream>>>(rows_of<T>(args.a), rows_of<B>(args.b),
                                                                         rows_of<T>(args.out), rows, n);
    });
  });
  check_launch();
}

void scale(cudaStream_t stream, const ScaleArgs& args) {
  const std::int64_t rows = args.x.size(0);
  const std::int64_t n = args.x.size(1);
  octavo::check(args.out.size(0) == rows && args.out.size(1) == n, "shapes of scale");
  octavo::check(args.weight.empty() || args.weight.elements() == 1, "scale takes one factor");
  if (rows == 0) return;
  const float* weight = args.weight.empty() ? nullptr : args.weight.data<float>();
  visit_float(args.x.dtype(), [&](auto type) {
    visit_float(args.out.dtype(), [&](auto result) {
      using T = decltype(type);
      using Out = decltype(result);
      scale_kernel<T, Out><<<grid_of(rows, n), kElementThreads, 0, stream>>>(
          rows_of<T>(args.x), weight, args.factor, args.soft_cap, rows_of<Out>(args.out), rows, n);
    });
  });
  check_launch();
}

void absmax(cudaStream_t stream, const AbsmaxArgs& args) {
  octavo::check(args.out.elements() == args.x.size(1) && args.out.dtype() == DType::f32,
                "absmax has one number a head");
  if (args.x.size(0) == 0) return;
  const dim3 grid(static_cast<unsigned>(args.x.size(0)), static_cast<unsigned>(args.x.size(1)));
  visit_float(args.x.dtype(), [&](auto type) {
    using T = decltype(type);
    absmax_kernel<T><<<grid, 32, 0, stream>>>(rows_of<T>(args.x), args.x.stride(1), args.x.size(2),
                                              reinterpret_cast<int*>(args.out.raw()));
  });
  check_launch();
}

}  // namespace octavo::cuda
