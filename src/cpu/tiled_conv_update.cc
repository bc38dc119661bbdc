#include "cpu/tiled_conv_update.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/conv_tile.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

void run_conv_update(ThreadPool& pool, const ConvUpdateArgs& args, void (*convolve)(const ConvTile&)) {
  const std::int64_t channels = args.x.size(1);
  const std::int64_t taps = args.weight.size(1);
  if (!is_activation(args.x) || !is_activation(args.out) || taps < 2 || taps > kConvTaps)
    return plain::conv_update(pool, args);
  check(args.weight.size(0) == channels && args.state.size(1) == channels && args.state.size(2) == taps - 1 &&
            args.state.contiguous() && args.out.size(1) == channels,
        "shapes of conv_update");
  const std::int32_t* records = ints(args.records);
  const std::int32_t* query_start = ints(args.batch.query_start);
  const std::int32_t* context = ints(args.batch.context);
  const std::int64_t blocks = (channels + kConvChannels - 1) / kConvChannels;
  pool.run(args.batch.num_seqs * blocks, [&](std::int64_t piece) {
    const std::int64_t seq = piece / blocks;
    const std::int64_t first = piece % blocks * kConvChannels;
    check(records[seq] >= 0 && records[seq] < args.state.size(0), "a record beyond the states");
    ConvTile tile;
    tile.tokens = query_start[seq + 1] - query_start[seq];
    tile.channels = std::min(kConvChannels, channels - first);
    tile.taps = taps;
    tile.weight = floats(args.weight) + first * taps;
    tile.state = args.state.data<float>() + (records[seq] * channels + first) * (taps - 1);
    if (context[seq] == tile.tokens) std::fill(tile.state, tile.state + tile.channels * (taps - 1), 0.0f);
    if (tile.tokens == 0) return;
    const auto rows_of = [&](const Tensor& x) {
      return token_rows(x, row_at(x.columns(first, tile.channels), query_start[seq]));
    };
    tile.x = rows_of(args.x);
    tile.out = rows_of(args.out);
    convolve(tile);
  });
}

}  // namespace

void avx512::conv_update(ThreadPool& pool, const ConvUpdateArgs& args) {
  run_conv_update(pool, args, avx512::convolve);
}
void avx2::conv_update(ThreadPool& pool, const ConvUpdateArgs& args) { run_conv_update(pool, args, avx2::convolve); }

}  // namespace octavo::cpu
