#include "cpu/tiled_linear.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/linear_tile.h"
#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu {

namespace {

constexpr std::int64_t kOutsOfTile = 48;  // a kernel's own step
constexpr std::int64_t kBytesOfTile =
    24 << 10;  // of weights: some microseconds, so that no thread waits long at the end
constexpr float kOne = 1.0f;

struct LinearPath {
  LinearTileFunction tile;
  WidenFunction widen;
};

std::optional<WeightKind> kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return WeightKind::f32;
    case DType::f16:
      return WeightKind::f16;
    case DType::bf16:
      return WeightKind::bf16;
    case DType::e4m3:
      return WeightKind::e4m3;
    case DType::q4_0:
      return WeightKind::q4_0;
    case DType::q4_1:
      return WeightKind::q4_1;
    case DType::q8_0:
      return WeightKind::q8_0;
    default:
      return std::nullopt;
  }
}

bool is_tiled(const WeightPart& part) {
  if (!kind_of(part.values.dtype())) return false;
  if (part.values.dtype() != DType::e4m3) return part.grain == ScaleGrain::none;
  return part.grain != ScaleGrain::block || part.block_cols % kLinearPad == 0;
}

void set_scale(const WeightPart& part, LinearTile& tile) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 40;
  tile.scale_rows = kEndless;
  tile.scale_cols = kEndless;
  if (part.values.dtype() != DType::e4m3) return;
  tile.scale = part.grain == ScaleGrain::none ? &kOne : floats(part.scale);
  if (part.grain == ScaleGrain::channel) {
    tile.scale_rows = 1;
    tile.scale_stride = 1;
  } else if (part.grain == ScaleGrain::block) {
    tile.scale_rows = part.block_rows;
    tile.scale_cols = part.block_cols;
    tile.scale_stride = part.scale.size(1);
  }
}

// The rows of x as floats, padded with zeros; x itself where it is so already.
class Inputs {
 public:
  Inputs(ThreadPool& pool, const Tensor& x, WidenFunction widen) : in_(x.size(1)) {
    if (x.dtype() == DType::f32 && in_ % kLinearPad == 0) {
      rows_ = x.data<float>();
      stride_ = x.stride(0);
      return;
    }
    stride_ = (in_ + kLinearPad - 1) / kLinearPad * kLinearPad;
    const std::int64_t tokens = x.size(0);
    memory_.reset(static_cast<float*>(
        std::aligned_alloc(kCacheLine, static_cast<std::size_t>(tokens * stride_) * sizeof(float))));
    check(memory_ != nullptr, "no memory is left for the inputs of a linear layer");
    rows_ = memory_.get();
    pool.run((tokens + kRowsOfPart - 1) / kRowsOfPart, [&](std::int64_t part) {
      for (std::int64_t t = part * kRowsOfPart; t < std::min(tokens, (part + 1) * kRowsOfPart); ++t)
        convert(x, t, widen);
    });
  }

  const float* row(std::int64_t t) const { return rows_ + t * stride_; }
  std::int64_t stride() const { return stride_; }

 private:
  static constexpr std::int64_t kRowsOfPart = 16;
  static constexpr std::size_t kCacheLine = 64;  // registers that cross lines cost twice

  void convert(const Tensor& x, std::int64_t t, WidenFunction widen) {
    float* to = memory_.get() + t * stride_;
    if (x.dtype() == DType::bf16)
      widen(reinterpret_cast<const std::uint16_t*>(row_at(x, t)), in_, to);
    else
      load_row(row_at(x, t), x.dtype(), in_, to);
    std::fill(to + in_, to + stride_, 0.0f);
  }

  std::int64_t in_;
  std::int64_t stride_ = 0;
  const float* rows_ = nullptr;
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> memory_;
};

// Tiles of all parts for the first rows of x; further rows repeat them.
std::vector<LinearTile> tiles_of(const LinearArgs& args) {
  std::vector<LinearTile> tiles;
  std::int64_t first = 0;  // the part's place among the outputs
  for (const WeightPart& part : args.weight.parts) {
    LinearTile tile;
    tile.in = args.weight.in;
    tile.kind = *kind_of(part.values.dtype());
    tile.weight = reinterpret_cast<const std::uint8_t*>(part.values.raw());
    tile.row_bytes = dtype_bytes(part.values.dtype(), part.values.stride(0));
    set_scale(part, tile);
    tile.bias = args.bias.empty() ? nullptr : floats(args.bias) + first;
    tile.out = args.out.raw() + dtype_bytes(args.out.dtype(), first);
    tile.out_stride = args.out.stride(0);
    tile.out_is_bf16 = args.out.dtype() == DType::bf16;
    const std::int64_t step = std::max<std::int64_t>(1, kBytesOfTile / (tile.row_bytes * kOutsOfTile)) * kOutsOfTile;
    const std::int64_t outs = part.values.size(0);
    for (tile.begin = 0; tile.begin < outs; tile.begin = tile.end) {
      tile.end = std::min(outs, tile.begin + step);
      tiles.push_back(tile);
    }
    first += outs;
  }
  return tiles;
}

void run_linear(ThreadPool& pool, const LinearArgs& args, const LinearPath& path) {
  check_weight(args.weight);
  const std::int64_t tokens = args.x.size(0);
  check(args.x.size(1) == args.weight.in && args.out.size(0) == tokens && args.out.size(1) == args.weight.out,
        "shapes of linear");
  check(args.bias.empty() || args.bias.elements() == args.weight.out, "a bias has one number an output");
  const Inputs inputs(pool, args.x, path.widen);
  const std::vector<LinearTile> tiles = tiles_of(args);
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  const std::int64_t out_row_bytes = dtype_bytes(args.out.dtype(), args.out.stride(0));
  pool.run(num_tiles * ((tokens + kTileRows - 1) / kTileRows), [&](std::int64_t i) {
    const std::int64_t row = i / num_tiles * kTileRows;
    LinearTile tile = tiles[static_cast<std::size_t>(i % num_tiles)];
    tile.x = inputs.row(row);
    tile.x_stride = inputs.stride();
    tile.rows = std::min(kTileRows, tokens - row);
    tile.out = static_cast<std::byte*>(tile.out) + row * out_row_bytes;
    path.tile(tile);
  });
}

bool is_tiled(const LinearArgs& args) {
  const DType out = args.out.dtype();
  return args.weight.in > 0 && (out == DType::f32 || out == DType::bf16) &&
         std::all_of(args.weight.parts.begin(), args.weight.parts.end(),
                     [](const WeightPart& part) { return is_tiled(part); });
}

}  // namespace

void avx512::linear(ThreadPool& pool, const LinearArgs& args, bool deterministic) {
  if (!is_tiled(args)) return plain::linear(pool, args, deterministic);
  run_linear(pool, args, {linear_tile, widen});
}

void avx2::linear(ThreadPool& pool, const LinearArgs& args, bool deterministic) {
  if (!is_tiled(args)) return plain::linear(pool, args, deterministic);
  run_linear(pool, args, {linear_tile, widen});
}

}  // namespace octavo::cpu
