#include <algorithm>

#include "cuda/check.h"
#include "cuda/grouped_products.cuh"
#include "cuda/grouped_tiles.h"
#include "cuda/packs.cuh"

namespace octavo::cuda {

namespace {

constexpr int kMostExperts = 1024;
constexpr int kSorters = 1024;

// Sums of the threads' values up to each one's own.
__device__ unsigned sum_up_to(unsigned value, unsigned (&of_warps)[kSorters / 32]) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto up_to_lane = [lane](unsigned sum) {
    for (unsigned step = 1; step < 32; step *= 2) {
      const unsigned before = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += before;
    }
    return sum;
  };
  const unsigned sum = up_to_lane(value);
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  const unsigned before = up_to_lane(of_warps[lane]);
  return sum + (warp > 0 ? __shfl_sync(~0u, before, warp - 1) : 0);
}

// One block; which choice of an expert comes first is left open: each is computed by itself.
__global__ void __launch_bounds__(kSorters) sort_kernel(const std::int32_t* ids, int choices, int tile, Sorted sorted) {
  __shared__ int counts[kMostExperts], next[kMostExperts];
  __shared__ unsigned of_warps[kSorters / 32];
  static_assert(kMostExperts == kSorters && kSorters == 32 * 32);
  const int thread = static_cast<int>(threadIdx.x);
  counts[thread] = 0;
  let_next_start();
  wait_for_kernels_before();
  __syncthreads();
  for (int i = thread; i < choices; i += kSorters) atomicAdd(&counts[ids[i]], 1);
  __syncthreads();
  const int count = counts[thread], tiles = (count + tile - 1) / tile;
  // Of both at once: there are no more than 65,535 choices.
  const unsigned sums = sum_up_to(static_cast<unsigned>(count << 16 | tiles), of_warps);
  const int first = static_cast<int>(sums >> 16) - count, last_tile = static_cast<int>(sums & 0xFFFF);
  next[thread] = first;
  for (int i = 0; i < tiles; ++i)
    sorted.tiles[last_tile - tiles + i] = {thread, first + i * tile, min(tile, count - i * tile)};
  if (thread == kSorters - 1) *sorted.count = last_tile;
  __syncthreads();
  for (int i = thread; i < choices; i += kSorters) sorted.choices[atomicAdd(&next[ids[i]], 1)] = i;
}

constexpr int kAdders = 256;

// Four numbers a thread: a token's results, weighted and added in the order of its choices.
__global__ void __launch_bounds__(kAdders)
    weigh_kernel(const float* sums, const float* weights, int k, std::int64_t out, Rows<__nv_bfloat16> to) {
  let_next_start();
  wait_for_kernels_before();
  const std::int64_t i = (std::int64_t{blockIdx.x} * kAdders + threadIdx.x) * 4;
  if (i >= out) return;
  float4 all = make_float4(0, 0, 0, 0);
  for (int j = 0; j < k; ++j) {
    const std::int64_t choice = std::int64_t{blockIdx.y} * k + j;
    const float4 y = *reinterpret_cast<const float4*>(sums + choice * out + i);
    const float weight = weights[choice];
    all.x = fmaf(weight, y.x, all.x), all.y = fmaf(weight, y.y, all.y);
    all.z = fmaf(weight, y.z, all.z), all.w = fmaf(weight, y.w, all.w);
  }
  Pack<__nv_bfloat16, 4> made;
  made.values[0] = from_float<__nv_bfloat16>(all.x), made.values[1] = from_float<__nv_bfloat16>(all.y);
  made.values[2] = from_float<__nv_bfloat16>(all.z), made.values[3] = from_float<__nv_bfloat16>(all.w);
  pack_at<__nv_bfloat16, 4>(to.row(blockIdx.y), i) = made;
}

template <DType kDtype>
void launch_products(cudaStream_t stream, bool many, unsigned tiles, const Tensor& x, const Grouping& grouping,
                     const Sorted& sorted, const ChoiceResult& result) {
  const dim3 grid(blocks_for(grouping.out, many ? kManyResults : kOperandRows), tiles);
  const auto rows = rows_of<const __nv_bfloat16>(x);
  if (many)
    launch_early(stream, grid, 32 * kManyWarps, 0, grouped_many_kernel<kDtype>, rows, grouping, sorted, result);
  else
    launch_early(stream, grid, 32 * kFewWarps, 0, grouped_few_kernel<kDtype>, rows, grouping, sorted, result);
}

// The tokens of `args` at once: as many as the scratch and a grid have room for.
void run_pass(cudaStream_t stream, const GroupedLinearArgs& args, Grouping grouping, std::byte* scratch, bool alike) {
  const std::int64_t choices = args.ids.size(0) * grouping.k;
  const auto experts = static_cast<std::int64_t>(args.experts.size());
  const bool many = alike || choices >= 2 * kFew * experts;
  const std::int64_t tiles = std::min(choices, choices / (many ? kMany : kFew) + std::min(experts, choices));
  grouping.ids = ints(args.ids);
  grouping.weights = floats(args.weights);
  Sorted sorted;
  if (many || args.ids.size(0) > 1) {
    sorted.count = reinterpret_cast<std::int32_t*>(scratch);
    sorted.tiles = reinterpret_cast<GroupTile*>(scratch + 16);
    sorted.choices = reinterpret_cast<std::int32_t*>(sorted.tiles + choices);
  }
  ChoiceResult result;
  const std::int64_t sums_at = (16 + choices * std::int64_t{sizeof(GroupTile) + 4} + 15) / 16 * 16;
  if (args.weights.empty())
    result.rows = rows_of<__nv_bfloat16>(args.out);
  else
    result.sums = reinterpret_cast<float*>(scratch + sums_at);
  if (sorted.tiles != nullptr)
    launch_early(stream, 1, kSorters, 0, sort_kernel, grouping.ids, static_cast<int>(choices), many ? kMany : kFew,
                 sorted);
  const auto launch = [&]<DType kDtype>() {
    launch_products<kDtype>(stream, many, static_cast<unsigned>(tiles), args.x, grouping, sorted, result);
  };
  switch (args.experts.front().parts.front().values.dtype()) {
    case DType::bf16:
      launch.operator()<DType::bf16>();
      break;
    case DType::e4m3:
      launch.operator()<DType::e4m3>();
      break;
    case DType::e2m1:
      launch.operator()<DType::e2m1>();
      break;
    case DType::q4_0:
      launch.operator()<DType::q4_0>();
      break;
    default:  // f32 stands for all others
      launch.operator()<DType::f32>();
  }
  if (result.sums != nullptr)
    launch_early(stream, dim3(blocks_for(grouping.out, 4 * kAdders), static_cast<unsigned>(args.ids.size(0))), kAdders,
                 0, weigh_kernel, static_cast<const float*>(result.sums), grouping.weights, grouping.k, grouping.out,
                 rows_of<__nv_bfloat16>(args.out));
}

}  // namespace

bool fit_grouped_tiles(std::span<const Weight> experts) {
  const Weight& expert = experts.front();
  if (expert.in % 64 != 0 || experts.size() > kMostExperts) return false;
  const DType dtype = expert.parts.front().values.dtype();
  return std::all_of(experts.begin(), experts.end(), [&](const Weight& each) {
    return std::all_of(each.parts.begin(), each.parts.end(), [&](const WeightPart& part) {
      const auto address = reinterpret_cast<std::uintptr_t>(part.values.raw()) |
                           static_cast<std::uintptr_t>(dtype_bytes(dtype, part.values.stride(0)));
      return part.values.dtype() == dtype && part.values.size(0) % kOperandRows == 0 &&
             (is_block_type(dtype) || address % 16 == 0) &&
             (part.grain != ScaleGrain::block || part.block_cols % 8 == 0) &&
             (dtype != DType::e2m1 || part.block_cols == WeightPiece<DType::e2m1>::kBlock);
    });
  });
}

bool takes_grouped_tiles(const GroupedLinearArgs& args) {
  return args.x.dtype() == DType::bf16 && by_pack(args.x, 8) && by_pack(args.out, 4);
}

void grouped_tiles(cudaStream_t stream, const GroupedLinearArgs& args, const Grouping& grouping,
                   std::span<std::byte> scratch, bool alike) {
  constexpr std::int64_t kMostTokens = 65535;  // a grid's rows
  const std::int64_t tokens = args.ids.size(0), k = args.ids.size(1);
  const std::int64_t of_choice =
      static_cast<std::int64_t>(sizeof(GroupTile)) + 4 + (args.weights.empty() ? 0 : 4 * grouping.out);
  const std::int64_t most =
      std::min(kMostTokens / k, (static_cast<std::int64_t>(scratch.size()) - 64) / (k * of_choice));
  octavo::check(most > 0, "the scratch has room for a token's results");
  for (std::int64_t first = 0; first < tokens; first += most) {
    const std::int64_t count = std::min(most, tokens - first);
    const auto rows = [&](const Tensor& tensor, std::int64_t of_token) {
      return tensor.empty() ? tensor : tensor.rows(first * of_token, count * of_token);
    };
    const GroupedLinearArgs pass{.x = rows(args.x, grouping.row_of_choice ? k : 1),
                                 .experts = args.experts,
                                 .bias = args.bias,
                                 .ids = rows(args.ids, 1),
                                 .weights = rows(args.weights, 1),
                                 .out = rows(args.out, args.weights.empty() ? k : 1)};
    run_pass(stream, pass, grouping, scratch.data(), alike);
  }
}

}  // namespace octavo::cuda
