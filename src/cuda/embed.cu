#include "cuda/check.h"
#include "cuda/verbs.h"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

namespace {

constexpr int kEmbedThreads = 256;

// A block a token. The table holds the rows of tokens [first_id, first_id + rows).
template <class T>
__global__ void __launch_bounds__(kEmbedThreads)
    embed_kernel(PartView table, const std::int32_t* ids, std::int64_t first_id, std::int64_t rows, float scale,
                 Rows<T> out) {
  const std::int64_t row = ids[blockIdx.x] - first_id;
  const bool is_here = row >= 0 && row < rows;
  T* to = out.row(blockIdx.x);
  for (std::int64_t i = threadIdx.x; i < table.in; i += kEmbedThreads)
    to[i] = from_float<T>(is_here ? number_at(table, row, i) * table.scale_at(row, i) * scale : 0.0f);
}

}  // namespace

void embed(cudaStream_t stream, const EmbedArgs& args) {
  octavo::check(
      args.table.parts.size() == 1 && args.out.size(0) == args.ids.elements() && args.out.size(1) == args.table.in,
      "shapes of embed");
  if (args.out.size(0) == 0) return;
  const PartView table = view_of(args.table.parts.front());
  visit_float(args.out.dtype(), [&](auto type) {
    using T = decltype(type);
    embed_kernel<T><<<static_cast<unsigned>(args.out.size(0)), kEmbedThreads, 0, stream>>>(
        table, ints(args.ids), args.first_id.value_or(0), args.table.out, args.scale, rows_of<T>(args.out));
  });
  check_launch();
}

}  // namespace octavo::cuda
