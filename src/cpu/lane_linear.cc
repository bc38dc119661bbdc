// linear of the path with VNNI: rows of x as whole numbers, once, and the blocks of a LaneWeight shared among threads.
#include <algorithm>
#include <vector>

#include "cpu/lane_weight.h"
#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/tiled_linear.h"
#include "cpu/weight_tiles.h"

namespace octavo::cpu {

namespace {

// A thread reads a tile's weights on and on, so tiles are large; but none waits long for another at the end.
constexpr std::int64_t kLeastBytesOfTile = 24 << 10;
constexpr std::int64_t kTilesOfThread = 4;

class LaneInputs {
 public:
  LaneInputs(ThreadPool& pool, const Tensor& x)
      : groups_(x.size(1) / kLaneGroup),
        sets_((x.size(0) + kLaneSet - 1) / kLaneSet),
        memory_(make_floats(sets_ * groups_ * kLaneSet * (kFloatsOfCodes + 2))),
        scales_(memory_.get() + sets_ * groups_ * kLaneSet * kFloatsOfCodes),
        sums_(scales_ + sets_ * groups_ * kLaneSet) {
    pool.run(sets_, [&](std::int64_t set) {
      for (std::int64_t row = set * kLaneSet; row < std::min(x.size(0), (set + 1) * kLaneSet); ++row) {
        const std::int64_t at = place(row);
        avx512::split_row(reinterpret_cast<const std::uint16_t*>(row_at(x, row)), groups_,
                          reinterpret_cast<std::int8_t*>(memory_.get()) + at * kLaneRowBytes, scales_ + at, sums_ + at);
      }
    });
  }

  // From `row` on, the first of a set.
  void give(LaneTile& tile, std::int64_t row) const {
    const std::int64_t at = place(row);
    tile.codes = reinterpret_cast<const std::int8_t*>(memory_.get()) + at * kLaneRowBytes;
    tile.scales = scales_ + at;
    tile.sums = sums_ + at;
  }

 private:
  static constexpr std::int64_t kFloatsOfCodes = kLaneRowBytes / sizeof(float);

  std::int64_t place(std::int64_t row) const { return row / kLaneSet * groups_ * kLaneSet + row % kLaneSet; }

  std::int64_t groups_;
  std::int64_t sets_;
  Floats memory_;
  float* scales_;
  float* sums_;
};

std::vector<LaneTile> tiles_of(const LaneWeight& weight, const LinearArgs& args, int num_threads) {
  std::int64_t bytes = 0;
  for (const LaneTile& part : weight.parts()) bytes += part.block_bytes * part.end;
  const std::int64_t bytes_of_tile = std::max(kLeastBytesOfTile, bytes / (kTilesOfThread * num_threads));
  std::vector<LaneTile> tiles;
  std::int64_t first = 0;  // the part's place among the outputs
  for (LaneTile tile : weight.parts()) {
    const std::int64_t end = tile.end;
    tile.bias = args.bias.empty() ? nullptr : floats(args.bias) + first;
    tile.out = args.out.raw() + dtype_bytes(args.out.dtype(), first);
    tile.out_stride = args.out.stride(0);
    tile.out_is_bf16 = args.out.dtype() == DType::bf16;
    const std::int64_t step = std::max<std::int64_t>(1, bytes_of_tile / tile.block_bytes);
    for (tile.begin = 0; tile.begin < end; tile.begin = tile.end) {
      tile.end = std::min(end, tile.begin + step);
      tiles.push_back(tile);
    }
    first += end * kLaneOuts;
  }
  return tiles;
}

void run_lanes(ThreadPool& pool, const LinearArgs& args, const LaneWeight& weight) {
  plain::check_linear(args);
  const std::int64_t tokens = args.x.size(0);
  const LaneInputs inputs(pool, args.x);
  const std::vector<LaneTile> tiles = tiles_of(weight, args, pool.num_threads());
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  const std::int64_t out_row_bytes = dtype_bytes(args.out.dtype(), args.out.stride(0));
  pool.run(num_tiles * ((tokens + kLaneRows - 1) / kLaneRows), [&](std::int64_t i) {
    const std::int64_t row = i / num_tiles * kLaneRows;
    LaneTile tile = tiles[static_cast<std::size_t>(i % num_tiles)];
    inputs.give(tile, row);
    tile.rows = std::min(kLaneRows, tokens - row);
    tile.out = static_cast<std::byte*>(tile.out) + row * out_row_bytes;
    avx512vnni::lane_tile(tile);
  });
}

}  // namespace

void avx512vnni::linear(ThreadPool& pool, const LinearArgs& args, bool deterministic) {
  const auto* weight = dynamic_cast<const LaneWeight*>(args.weight.form.get());
  if (weight == nullptr || args.x.dtype() != DType::bf16 || !is_activation(args.out))
    return avx512::linear(pool, args, deterministic);
  run_lanes(pool, args, *weight);
}

}  // namespace octavo::cpu
