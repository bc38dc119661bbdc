#include "cpu/tiled_conv_update.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/conv_tile.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

void run_conv_update(ThreadPool& pool, const ConvUpdateArgs& args, void (*convolve)(const ConvTile&)) {
  const auto is_taken = [](const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::bf16; };
  const std::int64_t channels = args.x.size(1);
  const std::int64_t taps = args.weight.size(1);
  if (!is_taken(args.x) || !is_taken(args.out) || taps < 2 || taps > kConvTaps) return plain::conv_update(pool, args);
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
    const Tensor x = args.x.columns(first, tile.channels);
    const Tensor out = args.out.columns(first, tile.channels);
    tile.x = row_at(x, query_start[seq]);
    tile.x_stride = x.stride(0);
    tile.x_is_bf16 = x.dtype() == DType::bf16;
    tile.out = row_at(out, query_start[seq]);
    tile.out_stride = out.stride(0);
    tile.out_is_bf16 = out.dtype() == DType::bf16;
    convolve(tile);
  });
}

}  // namespace

void avx512::conv_update(ThreadPool& pool, const ConvUpdateArgs& args) {
  run_conv_update(pool, args, avx512::convolve);
}
void avx2::conv_update(ThreadPool& pool, const ConvUpdateArgs& args) { run_conv_update(pool, args, avx2::convolve); }

}  // namespace octavo::cpu
