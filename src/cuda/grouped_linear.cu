#include <utility>
#include <vector>

#include "cuda/check.h"
#include "cuda/grouped_linear.h"
#include "cuda/grouped_tiles.h"
#include "cuda/grouping.cuh"

namespace octavo::cuda {

namespace {

constexpr int kGroupedThreads = 256;
constexpr int kGroupedWarps = kGroupedThreads / 32;

// e2m1 numbers have the powers of two of e8m0 where others have f32.
PartView expert_view_of(const WeightPart& part) {
  if (part.values.dtype() != DType::e2m1) return view_of(part);
  octavo::check(part.scale.dtype() == DType::e8m0 && part.block_rows == 1, "e2m1 numbers have a scale for each 32");
  WeightPart plain = part;
  plain.grain = ScaleGrain::none;
  PartView view = view_of(plain);
  view.grain = ScaleGrain::block;
  view.scale = reinterpret_cast<const float*>(part.scale.raw());
  view.scale_stride = part.scale.stride(0);
  view.block_rows = part.block_rows;
  view.block_cols = part.block_cols;
  return view;
}

__device__ float expert_scale_at(const PartView& part, std::int64_t row, std::int64_t column) {
  if (part.dtype != DType::e2m1) return part.scale_at(row, column);
  return f32_from_e8m0(
      reinterpret_cast<const std::uint8_t*>(part.scale)[row * part.scale_stride + column / part.block_cols]);
}

template <class T>
__device__ float product(const PartView& expert, std::int64_t row, const T* x) {
  float sum = 0.0f;
  for (std::int64_t i = threadIdx.x % 32; i < expert.in; i += 32)
    sum = fmaf(to_float(x[i]), number_at(expert, row, i) * expert_scale_at(expert, row, i), sum);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  return sum;
}

// Row blockIdx.x of the result: a choice's, or with weights a token's.
template <class T>
__global__ void __launch_bounds__(kGroupedThreads) grouped_kernel(Rows<const T> x, Grouping grouping, Rows<T> out) {
  const std::int64_t row = std::int64_t{blockIdx.y} * kGroupedWarps + threadIdx.x / 32;
  if (row >= grouping.out) return;
  const int terms = grouping.weights != nullptr ? grouping.k : 1;
  float sum = 0.0f;
  for (int j = 0; j < terms; ++j) {
    const std::int64_t choice = std::int64_t{blockIdx.x} * terms + j;
    const std::int32_t id = grouping.ids[choice];
    std::int64_t row_of_part = row;
    const PartView& part = grouping.part_of(id, row_of_part);
    float y = product(part, row_of_part, x.row(grouping.input_of(choice)));
    if (grouping.bias != nullptr) y += grouping.bias[id * grouping.out + row];
    sum += grouping.weights != nullptr ? grouping.weights[choice] * y : y;
  }
  if (threadIdx.x % 32 == 0) out.row(blockIdx.x)[row] = from_float<T>(sum);
}

}  // namespace

Result<GroupedLinear> GroupedLinear::create(Device& device, std::span<std::byte> scratch, bool deterministic) {
  OCTAVO_TRY(Buffer table, device.allocate(kMaxExperts * sizeof(PartView), "lists of experts"));
  return GroupedLinear(device, std::move(table), scratch, deterministic);
}

const GroupedLinear::List& GroupedLinear::list_of(std::span<const Weight> experts) {
  std::vector<Expert> wanted;
  wanted.reserve(experts.size());
  for (const Weight& expert : experts) {
    octavo::check(expert.parts.size() == experts.front().parts.size() && expert.out == experts.front().out &&
                      expert.in == experts.front().in,
                  "experts of one layer have one shape");
    for (const WeightPart& part : expert.parts)
      wanted.push_back({part.values.raw(), part.scale.raw(), part.values.dtype(), part.grain, part.block_rows,
                        part.block_cols, part.values.size(0), expert.in});
  }
  List& list = lists_[experts.data()];
  if (list.experts == wanted) return list;
  if (list.experts.size() != wanted.size()) {
    octavo::check(used_ + wanted.size() <= kMaxExperts, "more experts than the lists have room for");
    list.first = std::exchange(used_, used_ + wanted.size());
  }
  std::vector<PartView> views;
  for (const Weight& expert : experts)
    for (const WeightPart& part : expert.parts) views.push_back(expert_view_of(part));
  device_->upload(table_.data() + list.first * sizeof(PartView), std::as_bytes(std::span(views)));
  list.experts = std::move(wanted);
  list.tiles = fit_grouped_tiles(experts);
  return list;
}

void GroupedLinear::run(cudaStream_t stream, const GroupedLinearArgs& args) {
  const std::int64_t tokens = args.ids.size(0);
  const std::int64_t k = args.ids.size(1);
  octavo::check(!args.experts.empty() && args.experts.front().out == args.out.size(1) &&
                    args.experts.front().in == args.x.size(1) &&
                    (args.x.size(0) == tokens || args.x.size(0) == tokens * k) &&
                    args.out.size(0) == (args.weights.empty() ? tokens * k : tokens) &&
                    args.out.dtype() == args.x.dtype() && blocks_for(args.out.size(1), kGroupedWarps) <= 65535,
                "shapes of grouped_linear");
  if (tokens == 0) return;
  const List& list = list_of(args.experts);
  const Grouping grouping{reinterpret_cast<const PartView*>(table_.data()) + list.first,
                          ints(args.ids),
                          floats(args.weights),
                          floats(args.bias),
                          args.out.size(1),
                          static_cast<int>(k),
                          static_cast<int>(args.experts.front().parts.size()),
                          args.x.size(0) == tokens * k};
  if (list.tiles && takes_grouped_tiles(args)) return grouped_tiles(stream, args, grouping, scratch_, deterministic_);
  const dim3 grid(static_cast<unsigned>(args.out.size(0)), blocks_for(grouping.out, kGroupedWarps));
  visit_float(args.x.dtype(), [&](auto type) {
    using T = decltype(type);
    grouped_kernel<T><<<grid, kGroupedThreads, 0, stream>>>(rows_of<const T>(args.x), grouping, rows_of<T>(args.out));
  });
  check_launch();
}

}  // namespace octavo::cuda
