// A block has some tokens of one head and 64 columns of the result, and walks over the depth by 64. Tiles of x and of
// the weight are 64 numbers a row in shared memory; the next ones are on their way while one is multiplied. The weight
// lies as it does in memory: turned, its rows are the depth.
#include "cuda/check.h"
#include "cuda/head_linear.h"
#include "cuda/portable/mma.cuh"
#include "cuda/shared_address.cuh"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

namespace {

using portable::Operand;

constexpr int kHeadThreads = 128;
constexpr int kSide = 64;                       // columns of a block, numbers of a step
constexpr int kHeadPieces = kSide * kSide / 8;  // of 16 bytes, of the weight's tile
constexpr int kFewTokens = 16;

struct HeadProduct {
  const std::byte* x = nullptr;
  std::int64_t x_token_stride = 0, x_head_stride = 0;  // in numbers
  PartView part;
  std::byte* out = nullptr;
  std::int64_t out_token_stride = 0, out_head_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t unit = 0, first = 0;  // rows of the part
  std::int32_t depth = 0, columns = 0;
  bool transposed = false;
  bool by_eight = false;  // x and the weight are aligned for it, and the weight is bf16 or e4m3
  bool float_out = false;

  __device__ const __nv_bfloat16* input_row(std::int64_t token, int head) const {
    return reinterpret_cast<const __nv_bfloat16*>(x) + token * x_token_stride + head * x_head_stride;
  }
  __device__ std::int64_t weight_row(int head, int row) const { return head * unit + first + row; }
  __device__ void store(std::int64_t token, int head, int column, float sum) const {
    const std::int64_t at = token * out_token_stride + head * out_head_stride + column;
    if (float_out)
      reinterpret_cast<float*>(out)[at] = sum;
    else
      reinterpret_cast<__nv_bfloat16*>(out)[at] = __float2bfloat16_rn(sum);
  }
};

// Where piece `piece` of a tile's row lies.
__device__ int tile_offset(int row, int piece) { return row * 2 * kSide + ((piece ^ row % 8) << 4); }

__device__ uint4 as_bf16(const float (&numbers)[8]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = portable::packed<Operand::bf16>(numbers[2 * i], numbers[2 * i + 1]);
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Eight numbers of x from `column` on; aligned.
__device__ uint4 input_piece(const HeadProduct& h, std::int64_t token, int head, int column) {
  if (token >= h.tokens || column >= h.depth) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(h.input_row(token, head) + column);
}

// The same of a row of the weight, scaled.
__device__ uint4 weight_piece(const PartView& part, std::int64_t row, int column) {
  if (column >= part.in) return make_uint4(0, 0, 0, 0);
  if (part.dtype == DType::bf16) return __ldcs(reinterpret_cast<const uint4*>(part.row(row)) + column / 8);
  float numbers[8];
  load_eight<DType::e4m3>(part.row(row), column / 8, numbers);
  const float scale = part.scale_at(row, column);
#pragma unroll
  for (float& number : numbers) number *= scale;
  return as_bf16(numbers);
}

// kRowTiles: of 16 tokens. kByEight: numbers come eight at a time, a tile ahead of the product; otherwise one by one.
template <int kRowTiles, bool kTransposed, bool kByEight>
class HeadTile {
 public:
  __device__ HeadTile(const HeadProduct& h, std::byte* shared)
      : h_(h),
        shared_(shared),
        first_token_(std::int64_t{blockIdx.z} * 16 * kRowTiles),
        head_(static_cast<int>(blockIdx.y)),
        first_column_(static_cast<int>(blockIdx.x) * kSide) {}

  __device__ void run() {
    if constexpr (kByEight) fetch(0);
    for (int depth = 0; depth < h_.depth; depth += kSide) {
      if constexpr (kByEight)
        put();
      else
        fill(depth);
      __syncthreads();
      if constexpr (kByEight)
        if (depth + kSide < h_.depth) fetch(depth + kSide);
      multiply();
      __syncthreads();
    }
    store();
  }

 private:
  static constexpr int kInputPieces = kRowTiles * 16 * (kSide / 8) / kHeadThreads;  // a thread's
  static constexpr int kWeightPieces = kHeadPieces / kHeadThreads;
  static constexpr int kWeightAt = kRowTiles * 16 * 2 * kSide;

  __device__ void fetch(int depth) {
#pragma unroll
    for (int i = 0; i < kInputPieces; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kHeadThreads;
      inputs_[i] = input_piece(h_, first_token_ + at / 8, head_, depth + at % 8 * 8);
    }
#pragma unroll
    for (int i = 0; i < kWeightPieces; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kHeadThreads;
      const int row = (kTransposed ? depth : first_column_) + at / 8;
      const int column = (kTransposed ? first_column_ : depth) + at % 8 * 8;
      weights_[i] = make_uint4(0, 0, 0, 0);
      if (row < (kTransposed ? h_.depth : h_.columns))
        weights_[i] = weight_piece(h_.part, h_.weight_row(head_, row), column);
    }
  }

  __device__ void put() {
#pragma unroll
    for (int i = 0; i < kInputPieces; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kHeadThreads;
      *reinterpret_cast<uint4*>(shared_ + tile_offset(at / 8, at % 8)) = inputs_[i];
    }
#pragma unroll
    for (int i = 0; i < kWeightPieces; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kHeadThreads;
      *reinterpret_cast<uint4*>(shared_ + kWeightAt + tile_offset(at / 8, at % 8)) = weights_[i];
    }
  }

  // Both tiles, whatever the dtype and wherever rows begin.
  __device__ void fill(int depth) {
    const auto place = [&](int at) { return tile_offset(at / kSide, at % kSide / 8) + at % 8 * 2; };
#pragma unroll 1
    for (int at = threadIdx.x; at < kRowTiles * 16 * kSide; at += kHeadThreads) {
      const std::int64_t token = first_token_ + at / kSide;
      const int i = depth + at % kSide;
      const bool there = token < h_.tokens && i < h_.depth;
      *reinterpret_cast<__nv_bfloat16*>(shared_ + place(at)) =
          there ? h_.input_row(token, head_)[i] : __float2bfloat16_rn(0.0f);
    }
#pragma unroll 1
    for (int at = threadIdx.x; at < kSide * kSide; at += kHeadThreads) {
      const int row = (kTransposed ? depth : first_column_) + at / kSide;
      const int column = (kTransposed ? first_column_ : depth) + at % kSide;
      float number = 0.0f;
      if (row < (kTransposed ? h_.depth : h_.columns) && column < h_.part.in) {
        const std::int64_t of_part = h_.weight_row(head_, row);
        number = number_at(h_.part, of_part, column) * h_.part.scale_at(of_part, column);
      }
      *reinterpret_cast<__nv_bfloat16*>(shared_ + kWeightAt + place(at)) = __float2bfloat16_rn(number);
    }
  }

  // A warp has 16 columns.
  __device__ void multiply() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const std::uint32_t inputs = shared_address(shared_);
    const std::uint32_t weights = inputs + kWeightAt;
#pragma unroll
    for (int step = 0; step < kSide / 16; ++step) {
      std::uint32_t w[4];
      if constexpr (kTransposed)
        portable::load_transposed(w, weights + tile_offset(16 * step + (m & 1) * 8 + r, 2 * warp + (m >> 1)));
      else
        portable::load_matrices(w, weights + tile_offset(16 * warp + (m >> 1) * 8 + r, 2 * step + (m & 1)));
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        std::uint32_t a[4];
        portable::load_matrices(a, inputs + tile_offset(16 * tile + lane % 16, 2 * step + lane / 16));
        portable::multiply_add<Operand::bf16>(sums_[tile][0], a, w[0], w[1]);
        portable::multiply_add<Operand::bf16>(sums_[tile][1], a, w[2], w[3]);
      }
    }
  }

  __device__ void store() const {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t token = first_token_ + 16 * tile + g + i / 2 * 8;
        if (token >= h_.tokens) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (const int column = first_column_ + 16 * warp + 8 * half + 2 * c + i % 2; column < h_.columns)
            h_.store(token, head_, column, sums_[tile][half][i]);
      }
  }

  const HeadProduct& h_;
  std::byte* shared_;
  const std::int64_t first_token_;
  const int head_;
  const int first_column_;
  uint4 inputs_[kInputPieces];  // on their way, as are those of the weight
  uint4 weights_[kWeightPieces];
  float sums_[kRowTiles][2][4] = {};
};

template <int kRowTiles, bool kTransposed, bool kByEight>
__global__ void __launch_bounds__(kHeadThreads, 3) head_kernel(const __grid_constant__ HeadProduct h) {
  __shared__ __align__(128) std::byte shared[(kRowTiles * 16 + kSide) * 2 * kSide];
  HeadTile<kRowTiles, kTransposed, kByEight>(h, shared).run();
}

// A thread a number of the result, of float32 inputs.
__global__ void __launch_bounds__(kHeadThreads) head_floats_kernel(const __grid_constant__ HeadProduct h) {
  const int column = static_cast<int>(blockIdx.x) * kHeadThreads + static_cast<int>(threadIdx.x);
  if (column >= h.columns) return;
  const int head = static_cast<int>(blockIdx.y);
  for (std::int64_t token = blockIdx.z; token < h.tokens; token += gridDim.z) {
    const float* x = reinterpret_cast<const float*>(h.x) + token * h.x_token_stride + head * h.x_head_stride;
    float sum = 0.0f;
    for (int i = 0; i < h.depth; ++i) {
      const std::int64_t row = h.weight_row(head, h.transposed ? i : column);
      const int at = h.transposed ? column : i;
      sum = fmaf(x[i], number_at(h.part, row, at) * h.part.scale_at(row, at), sum);
    }
    h.store(token, head, column, sum);
  }
}

HeadProduct product_of(const HeadLinearArgs& args) {
  const std::int64_t tokens = args.x.size(0), heads = args.x.size(1), in = args.weight.in;
  octavo::check(args.weight.parts.size() == 1 && args.first >= 0 && args.count > 0 &&
                    args.first + args.count <= args.unit && args.weight.out == heads * args.unit,
                "a head's rows lie within its unit");
  octavo::check(args.x.size(2) == (args.transposed ? args.count : in) && args.out.size(0) == tokens &&
                    args.out.size(1) == heads && args.out.size(2) == (args.transposed ? in : args.count) &&
                    args.x.stride(2) == 1 && args.out.stride(2) == 1 && heads <= 65535,
                "shapes of head_linear");
  HeadProduct h;
  h.x = args.x.raw();
  h.x_token_stride = args.x.stride(0);
  h.x_head_stride = args.x.stride(1);
  h.part = view_of(args.weight.parts.front());
  h.out = args.out.raw();
  h.out_token_stride = args.out.stride(0);
  h.out_head_stride = args.out.stride(1);
  h.tokens = tokens;
  h.unit = args.unit;
  h.first = args.first;
  h.depth = static_cast<std::int32_t>(args.x.size(2));
  h.columns = static_cast<std::int32_t>(args.out.size(2));
  h.transposed = args.transposed;
  const bool known = (h.part.dtype == DType::bf16 && h.part.grain == ScaleGrain::none) || h.part.dtype == DType::e4m3;
  const auto address = reinterpret_cast<std::uintptr_t>(h.x) | static_cast<std::uintptr_t>(2 * h.x_token_stride) |
                       static_cast<std::uintptr_t>(2 * h.x_head_stride);
  h.by_eight = known && loads_by_eight(h.part) && address % 16 == 0 && h.depth % 8 == 0;
  h.float_out = args.out.dtype() == DType::f32;
  return h;
}

template <int kRowTiles, bool kTransposed>
void launch(cudaStream_t stream, const HeadProduct& h, unsigned heads) {
  const dim3 grid(blocks_for(h.columns, kSide), heads, blocks_for(h.tokens, 16 * kRowTiles));
  const auto kernel =
      h.by_eight ? head_kernel<kRowTiles, kTransposed, true> : head_kernel<kRowTiles, kTransposed, false>;
  kernel<<<grid, kHeadThreads, 0, stream>>>(h);
}

template <int kRowTiles>
void launch(cudaStream_t stream, const HeadProduct& h, unsigned heads) {
  h.transposed ? launch<kRowTiles, true>(stream, h, heads) : launch<kRowTiles, false>(stream, h, heads);
}

}  // namespace

void head_linear(cudaStream_t stream, const HeadLinearArgs& args) {
  const HeadProduct h = product_of(args);
  if (h.tokens == 0) return;
  const auto heads = static_cast<unsigned>(args.x.size(1));
  visit_float(args.x.dtype(), [&](auto type) {
    if constexpr (sizeof(type) == 4) {
      const dim3 grid(blocks_for(h.columns, kHeadThreads), heads, grid_rows(h.tokens));
      head_floats_kernel<<<grid, kHeadThreads, 0, stream>>>(h);
    } else {
      h.tokens <= kFewTokens ? launch<1>(stream, h, heads) : launch<4>(stream, h, heads);
    }
  });
  check_launch();
}

}  // namespace octavo::cuda
