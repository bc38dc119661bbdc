// The other product with rows of a weight, W turned (linear_tile.h): templates over a Vec, included by linear_<isa>.cc
// alone. Numbers of a strip of columns are unpacked once for all rows of x; each sum is a lane of its own, over the
// rows of W in their order, whatever other rows of x there are.
#pragma once

#include "cpu/tile_rows.h"

namespace octavo::cpu {

template <class V, class Unpack>
class TurnedLinearKernel {
 public:
  explicit TurnedLinearKernel(const LinearTile& tile) : tile_(tile), weights_(tile) {}

  void run() {
    const std::int64_t groups = (tile_.in + kGroup - 1) / kGroup;
    for (std::int64_t first = 0; first < groups; first += kStripGroups) {
      strip(first, groups - first < kStripGroups ? groups - first : kStripGroups);
      for (std::int64_t m = 0; m < tile_.rows; ++m) {
        const std::int64_t left = tile_.in - first * kGroup;
        store_results<V>(tile_, m, first * kGroup, sums_[m], left < kStrip ? left : kStrip);
      }
    }
  }

 private:
  using F = typename V::F;
  static constexpr std::int64_t kStripGroups = 8;  // whole blocks of every kind
  static constexpr std::int64_t kStrip = kStripGroups * kGroup;
  static constexpr std::int64_t kPanelRows = 16;  // of W: they stay in the first-level cache
  static constexpr int kVecs = V::kAttentionVecs;
  static constexpr int kWide = kVecs * V::kLanes;
  static_assert(kStripGroups % Unpack::kGroups == 0 && kStrip % kWide == 0);

  void strip(std::int64_t first, std::int64_t num) {
    for (std::int64_t m = 0; m < tile_.rows; ++m)
      for (std::int64_t i = 0; i < kStrip; i += V::kLanes) V::store(sums_[m] + i, V::zero());
    // Numbers beyond the strip's groups are multiplied too, and not stored: zeros.
    for (std::int64_t i = 0; num < kStripGroups && i < kPanelRows * kStrip; i += V::kLanes)
      V::store(panel_ + i, V::zero());
    for (std::int64_t o = tile_.begin; o < tile_.end; o += kPanelRows) {
      const std::int64_t count = tile_.end - o < kPanelRows ? tile_.end - o : kPanelRows;
      for (std::int64_t r = 0; r < count; ++r) weights_.unpack(o + r, first, num, panel_ + r * kStrip);
      std::int64_t m = 0;
      for (; m + kMany <= tile_.rows; m += kMany) rows<kMany>(m, o, count, num);
      for (; m < tile_.rows; ++m) rows<1>(m, o, count, num);
    }
  }

  template <int kRows>
  void rows(std::int64_t m, std::int64_t o, std::int64_t count, std::int64_t num) {
    for (std::int64_t begin = 0; begin < num * kGroup; begin += kWide) add<kRows>(m, o, count, begin);
  }

  template <int kRows>
  void add(std::int64_t m, std::int64_t o, std::int64_t count, std::int64_t begin) {
    const float* x = tile_.x + m * tile_.x_stride + o - tile_.begin;
    F sums[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) sums[r][v] = V::load(sums_[m + r] + begin + v * V::kLanes);
    for (std::int64_t i = 0; i < count; ++i) {
      F w[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) w[v] = V::load(panel_ + i * kStrip + begin + v * V::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        F one = V::all(x[r * tile_.x_stride + i]);
        V::hold(one);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = V::fma(one, w[v], sums[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) V::store(sums_[m + r] + begin + v * V::kLanes, sums[r][v]);
  }

  static constexpr int kMany = V::kAttentionRows;

  const LinearTile& tile_;
  const TileRows<V, Unpack> weights_;
  alignas(64) float sums_[kTileRows][kStrip];
  alignas(64) float panel_[kPanelRows * kStrip];
};

template <class V>
void run_turned_linear_tile(const LinearTile& tile) {
  run_tile<V, TurnedLinearKernel>(tile);
}

}  // namespace octavo::cpu
