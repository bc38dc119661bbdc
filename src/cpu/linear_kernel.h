// The linear layer of the vector paths, once for every instruction set: templates over a Vec (vec_avx512.h), included
// by linear_<isa>.cc alone.
//
// One to four rows of x: each group of weights is unpacked into registers, used for all rows, and forgotten (the bytes
// of the weight are the limit). More rows: some weight rows are unpacked into a panel in the first-level cache, and
// small blocks of x by panel are held in registers. Both add products in the order that linear_tile.h promises.
#pragma once

#include "cpu/tile_rows.h"

namespace octavo::cpu {

template <class V, class Unpack>
class LinearKernel {
 public:
  explicit LinearKernel(const LinearTile& tile)
      : tile_(tile), weights_(tile), groups_((tile.in + kGroup - 1) / kGroup) {}

  void run() {
    for (std::int64_t begin = tile_.begin; begin < tile_.end; begin += kOuts) {
      const int count = static_cast<int>(tile_.end - begin < kOuts ? tile_.end - begin : kOuts);
      switch (tile_.rows) {
        case 1:
          few_rows<1, 4>(begin, count);
          break;
        case 2:
          few_rows<2, 4>(begin, count);
          break;
        case 3:
          few_rows<3, 2>(begin, count);
          break;
        case 4:
          few_rows<4, 2>(begin, count);
          break;
        default:
          many_rows(begin, count);
      }
      finish(begin, count);
    }
  }

 private:
  using F = typename V::F;
  using Scale = typename Unpack::Scale;
  using Rows = TileRows<V, Unpack>;
  static constexpr int kVecs = kGroup / V::kLanes;
  static constexpr int kOuts = 48;                                // outputs computed before they are rounded and stored
  static constexpr int kSpan = 64;                                // groups whose scales are made at once
  static constexpr std::int64_t kPanelGroups = Rows::kMaxGroups;  // a panel's rows stay in the first-level cache
  static_assert(kSpan % Unpack::kGroups == 0 && kPanelGroups % Unpack::kGroups == 0);
  static constexpr int kMr = V::kLinearRows;
  static constexpr int kNr = V::kLinearOuts;

  template <int kRows, int kWeights>
  void few_rows(std::int64_t begin, int count) {
    int i = 0;
    for (; i + kWeights <= count; i += kWeights) dot_rows<kRows, kWeights>(begin + i, i);
    for (; i < count; ++i) dot_rows<kRows, 1>(begin + i, i);
  }

  template <int kRows, int kWeights>
  void dot_rows(std::int64_t o, int at) {
    WeightRow rows[kWeights];
    for (int r = 0; r < kWeights; ++r) rows[r] = weights_.row(o + r);
    F sums[kWeights][kRows];
    for (int r = 0; r < kWeights; ++r)
      for (int m = 0; m < kRows; ++m) sums[r][m] = V::zero();
    Scale scales[kWeights][kSpan + 1];
    for (std::int64_t first = 0; first < groups_; first += kSpan) {
      const std::int64_t last = groups_ - first < kSpan ? groups_ : first + kSpan;
      for (int r = 0; r < kWeights; ++r) Unpack::make_scales(rows[r], first, last - first, scales[r]);
      const std::int64_t whole = tile_.in / kGroup < last ? tile_.in / kGroup : last;
      for (std::int64_t g = first; g < whole; ++g) {
#pragma GCC unroll 8
        for (int r = 0; r < kWeights; ++r)
          add_group<kRows>(Rows::block(rows[r].bytes, g), scales[r][g - first], g, sums[r]);
          // The processor's own prefetch stops at pages: without this, weights that lie in memory come a third slower.
#pragma GCC unroll 8
        for (int r = 0; r < kWeights; ++r)
          __builtin_prefetch(rows[r].bytes + g * Unpack::kBytes / Unpack::kGroups + 2 * kWeights * tile_.row_bytes);
      }
      std::uint8_t copy[Unpack::kBytes];
      for (std::int64_t g = whole; g < last; ++g)
        for (int r = 0; r < kWeights; ++r)
          add_group<kRows>(weights_.filled_block(rows[r].bytes, g, copy), scales[r][g - first], g, sums[r]);
    }
    for (int m = 0; m < kRows; ++m) store_sums<kWeights>(sums, m, y_[m] + at);
  }

  template <int kRows>
  [[gnu::always_inline]] void add_group(const std::uint8_t* p, const Scale& scale, std::int64_t g, F* sums) const {
    F w[kVecs];
    Unpack::unpack(p, Rows::part(g), scale, w);
#pragma GCC unroll 8
    for (int i = 0; i < kVecs; ++i)
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m)
        sums[m] = V::fma(w[i], V::load(tile_.x + m * tile_.x_stride + g * kGroup + i * V::kLanes), sums[m]);
  }

  template <int kWeights, int kRows>
  static void store_sums(const F (&sums)[kWeights][kRows], int m, float* to) {
    float four[4];
    const F none = V::zero();
    V::four_sums(sums[0][m], kWeights > 1 ? sums[kWeights > 1 ? 1 : 0][m] : none,
                 kWeights > 2 ? sums[kWeights > 2 ? 2 : 0][m] : none,
                 kWeights > 3 ? sums[kWeights > 3 ? 3 : 0][m] : none, four);
    for (int r = 0; r < kWeights; ++r) to[r] = four[r];
  }

  void many_rows(std::int64_t begin, int count) {
    alignas(64) float panel[kNr * kPanelGroups * kGroup];
    const std::int64_t spans = (groups_ + kPanelGroups - 1) / kPanelGroups;
    std::int64_t span = (groups_ + spans - 1) / spans;
    span = (span + Unpack::kGroups - 1) / Unpack::kGroups * Unpack::kGroups;  // scales are made for whole blocks
    for (int at = 0; at < count; at += kNr) {
      for (std::int64_t first = 0; first < groups_; first += span) {
        const std::int64_t num = groups_ - first < span ? groups_ - first : span;
        fill_panel(begin + at, count - at, first, num, panel);
        multiply(panel, first, num, at);
      }
    }
  }

  // Rows beyond the tile's end are zero.
  void fill_panel(std::int64_t o, int count, std::int64_t first, std::int64_t num, float* panel) const {
    for (int n = 0; n < kNr; ++n) {
      float* to = panel + n * num * kGroup;
      if (n < count)
        weights_.unpack(o + n, first, num, to);
      else
        for (std::int64_t i = 0; i < num * kGroup; i += V::kLanes) V::store(to + i, V::zero());
    }
  }

  void multiply(const float* panel, std::int64_t first, std::int64_t num, int at) {
    std::int64_t m = 0;
    for (; m + kMr <= tile_.rows; m += kMr) block<kMr>(panel, first, num, m, at);
    for (; m < tile_.rows; ++m) block<1>(panel, first, num, m, at);
  }

  // Sums of kRows x kNr over a panel's groups. Between two panels they rest, lane by lane, in partial_.
  template <int kRows>
  void block(const float* panel, std::int64_t first, std::int64_t num, std::int64_t m, int at) {
    F sums[kRows][kNr];
    float* rest = partial_ + m * kNr * V::kLanes;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int n = 0; n < kNr; ++n) sums[r][n] = first == 0 ? V::zero() : V::load(rest + (r * kNr + n) * V::kLanes);
    const float* x = tile_.x + m * tile_.x_stride + first * kGroup;
    const std::int64_t stride = num * kGroup;
    for (std::int64_t k = 0; k < stride; k += V::kLanes) {
      F left[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) left[r] = V::load(x + r * tile_.x_stride + k);
#pragma GCC unroll 8
      for (int n = 0; n < kNr; ++n) {
        F right = V::load(panel + n * stride + k);
        V::hold(right);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[r][n] = V::fma(right, left[r], sums[r][n]);
      }
    }
    const bool done = first + num == groups_;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int n = 0; n < kNr; n += 4) {
        if (done) {
          V::four_sums(sums[r][n], sums[r][n + 1], sums[r][n + 2], sums[r][n + 3], y_[m + r] + at + n);
          continue;
        }
        for (int i = 0; i < 4; ++i) V::store(rest + (r * kNr + n + i) * V::kLanes, sums[r][n + i]);
      }
  }

  // Bias and rounding.
  void finish(std::int64_t begin, int count) {
    const float* bias = tile_.bias == nullptr ? nullptr : tile_.bias + begin;
    for (std::int64_t m = 0; m < tile_.rows; ++m) {
      float* y = y_[m];
      if (bias != nullptr)
        for (int i = 0; i < count; ++i) y[i] += bias[i];
      store_results<V>(tile_, m, begin - tile_.out_first, y, count);
    }
  }

  const LinearTile& tile_;
  const Rows weights_;
  const std::int64_t groups_;
  alignas(64) float y_[kTileRows][kOuts];
  alignas(64) float partial_[kTileRows * kNr * V::kLanes];
};

template <class V>
void run_linear_tile(const LinearTile& tile) {
  run_tile<V, LinearKernel>(tile);
}

template <class V>
void run_widen(const std::uint16_t* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::store(to + i, V::from_bf16(from + i));
  if (i == n) return;
  std::uint16_t last[V::kLanes] = {};
  for (std::int64_t j = i; j < n; ++j) last[j - i] = from[j];
  float wide[V::kLanes];
  V::store(wide, V::from_bf16(last));
  for (std::int64_t j = i; j < n; ++j) to[j] = wide[j - i];
}

}  // namespace octavo::cpu
