#include "cpu/tiled_head_linear.h"

#include <algorithm>

#include "cpu/head_tiles.h"
#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu {

namespace {

bool takes_head_tiles(const HeadLinearArgs& args) {
  return has_head_tiles(args.weight) && is_activation(args.x) && is_activation(args.out);
}

// Rows of one head as tiles read them: floats, padded with zeros where a product runs along them.
class HeadInputs {
 public:
  HeadInputs(const HeadLinearArgs& args, std::int64_t begin, std::int64_t rows, std::int64_t head,
             WidenFunction widen) {
    const std::int64_t width = args.x.size(2);
    const std::int64_t padded = args.transposed ? width : (width + kLinearPad - 1) / kLinearPad * kLinearPad;
    if (args.x.dtype() == DType::f32 && padded == width) {
      rows_ = reinterpret_cast<const float*>(row_at(args.x, begin, head));
      stride_ = args.x.stride(0);
      return;
    }
    stride_ = padded;
    memory_ = make_floats(rows * stride_);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::byte* from = row_at(args.x, begin + i, head);
      float* to = memory_.get() + i * stride_;
      if (args.x.dtype() == DType::bf16)
        widen(reinterpret_cast<const std::uint16_t*>(from), width, to);
      else
        load_row(from, args.x.dtype(), width, to);
      std::fill(to + width, to + stride_, 0.0f);
    }
    rows_ = memory_.get();
  }

  const float* rows() const { return rows_; }
  std::int64_t stride() const { return stride_; }

 private:
  const float* rows_ = nullptr;
  std::int64_t stride_ = 0;
  Floats memory_;
};

void run_head_linear(ThreadPool& pool, const HeadLinearArgs& args, const HeadPath& path) {
  if (!takes_head_tiles(args)) return plain::head_linear(pool, args);
  plain::check_head_linear(args);
  const std::int64_t tokens = args.x.size(0);
  const std::int64_t heads = args.x.size(1);
  pool.run(heads * ((tokens + kTileRows - 1) / kTileRows), [&](std::int64_t i) {
    const std::int64_t head = i % heads;
    const std::int64_t begin = i / heads * kTileRows;
    const std::int64_t rows = std::min(kTileRows, tokens - begin);
    const HeadInputs inputs(args, begin, rows, head, path.widen);
    LinearTile tile = head_tile(args.weight, head * args.unit + args.first, args.count);
    tile.x = inputs.rows();
    tile.x_stride = inputs.stride();
    tile.rows = rows;
    tile.out = row_at(args.out, begin, head);
    tile.out_stride = args.out.stride(0);
    tile.out_is_bf16 = args.out.dtype() == DType::bf16;
    args.transposed ? path.turned(tile) : path.tile(tile);
  });
}

}  // namespace

void avx512::head_linear(ThreadPool& pool, const HeadLinearArgs& args) {
  run_head_linear(pool, args, {linear_tile, turned_linear_tile, widen});
}

void avx2::head_linear(ThreadPool& pool, const HeadLinearArgs& args) {
  run_head_linear(pool, args, {linear_tile, turned_linear_tile, widen});
}

}  // namespace octavo::cpu
