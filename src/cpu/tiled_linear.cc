#include "cpu/tiled_linear.h"

#include <algorithm>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_tiles.h"

namespace octavo::cpu {

namespace {

void run_linear(ThreadPool& pool, const LinearArgs& args, const LinearPath& path) {
  plain::check_linear(args);
  const std::int64_t tokens = args.x.size(0);
  const LinearInputs inputs(pool, args.x, path.widen);
  std::vector<LinearTile> tiles;
  add_tiles(args.weight, floats(args.bias), args.out, tiles);
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

bool takes_tiles(const LinearArgs& args) {
  return is_activation(args.out) && is_tiled(args.weight) && input_order(args.weight) == InputOrder::natural;
}

}  // namespace

void avx512::linear(ThreadPool& pool, const LinearArgs& args, bool deterministic) {
  if (!takes_tiles(args)) return plain::linear(pool, args, deterministic);
  run_linear(pool, args, {linear_tile, widen});
}

void avx2::linear(ThreadPool& pool, const LinearArgs& args, bool deterministic) {
  if (!takes_tiles(args)) return plain::linear(pool, args, deterministic);
  run_linear(pool, args, {linear_tile, widen});
}

}  // namespace octavo::cpu
