// Attention of the vector paths, once for every instruction set: templates over a Vec, included by attention_<isa>.cc
// alone. A tile of the cache is unpacked once and read by all rows of the unit; scores are blocks of rows by keys in
// registers, then the softmax row by row, then blocks of rows by numbers.
#pragma once

#include "cpu/cache_tile.h"
#include "cpu/latent_tile.h"

namespace octavo::cpu {

template <class V, class Tiles>
class AttentionKernel {
 public:
  explicit AttentionKernel(const AttentionUnit& unit)
      : unit_(unit),
        tiles_(unit),
        rows_(unit.tokens * unit.heads),
        width_(unit.key.width),
        value_width_(unit.value.width),
        few_rows_(rows_ <= kRows) {
    for (int row = 0; row < rows_; ++row) position_[row] = unit.position + row / unit.heads;
  }

  void run() {
    load_queries();
    if (unit_.carried != nullptr)
      take_carried();
    else if (unit_.partial == nullptr)
      start_rows(total_, total_max_, total_sum_);
    for (std::int64_t span = unit_.first_span; span <= unit_.last_span; ++span) {
      start_rows(numbers_, max_, sum_);
      for (int tile = 0; tile < kSpanKeys / kTileKeys; ++tile) run_tile(span * kSpanKeys + tile * kTileKeys);
      if (unit_.partial != nullptr)
        leave_partial(span);
      else
        fold_span(span);
    }
    if (unit_.carried != nullptr)
      leave_carried();
    else if (unit_.partial == nullptr)
      for (int row = 0; row < rows_; ++row) store_row(row);
  }

  void merge() {
    start_rows(total_, total_max_, total_sum_);
    const float* partial = unit_.partial;
    for (std::int64_t span = unit_.first_span; span <= unit_.last_span; ++span)
      for (int row = 0; row < rows_; ++row, partial += value_width_ + 2)
        if (sees_span(row, span)) fold(row, partial[0], partial[1], partial + 2);
    for (int row = 0; row < rows_; ++row) store_row(row);
  }

 private:
  using F = typename V::F;
  static constexpr int kRows = V::kAttentionRows;
  static constexpr int kVecs = V::kAttentionVecs;
  static constexpr int kTileVecs = kTileKeys / V::kLanes;
  static constexpr int kGroup = 96;  // rows whose scores stay in the caches beside the tile
  static constexpr int kPart = 4;    // widths are multiples
  static constexpr float kNone = -__builtin_inff();

  std::int64_t first_visible(std::int64_t position) const {
    return unit_.window == 0 || position < unit_.window ? 0 : position - unit_.window + 1;
  }
  bool sees_span(int row, std::int64_t span) const {
    const std::int64_t position = position_[row];
    return span * kSpanKeys <= position && first_visible(position) < (span + 1) * kSpanKeys;
  }

  void load_queries() {
    for (int row = 0; row < rows_; ++row) {
      const float* from = unit_.q + row / unit_.heads * unit_.q_token_stride + row % unit_.heads * unit_.q_head_stride;
      for (int i = 0; i < width_; i += V::kLanes) V::store(queries_ + row * width_ + i, V::load(from + i));
    }
  }

  void start_rows(float* numbers, float* max, float* sum) {
    for (int i = 0; i < rows_ * value_width_; i += V::kLanes) V::store(numbers + i, V::zero());
    for (int row = 0; row < rows_; ++row) max[row] = kNone;
    const int lanes = numbers == numbers_ ? V::kLanes : 1;
    for (int i = 0; i < rows_ * lanes; ++i) sum[i] = 0.0f;
  }

  // The keys of a tile that any row sees, from the block that the first is in.
  struct TileRange {
    int begin;
    int end;
  };
  TileRange range_of(std::int64_t start) const {
    const std::int64_t oldest = first_visible(unit_.position) - start;
    const std::int64_t past = position_[rows_ - 1] - start + 1;
    const std::int64_t begin = oldest < 0 ? 0 : oldest < kTileKeys ? oldest / kBlockKeys * kBlockKeys : kTileKeys;
    return {static_cast<int>(begin), static_cast<int>(past < 0 ? 0 : past < kTileKeys ? past : kTileKeys)};
  }

  // Past the unit's last span there is nothing to load.
  bool has(std::int64_t start) const { return start < (unit_.last_span + 1) * kSpanKeys; }

  void load(std::int64_t start, TileRange range) {
    tiles_.load(start, range.begin, range.end, few_rows_);
    loaded_ = start;
  }
  void load_next(std::int64_t start) {
    if constexpr (!Tiles::kFloats) {
      const TileRange range = range_of(start);
      if (has(start) && range.begin < range.end) load(start, range);
    }
  }
  void look_ahead(std::int64_t start) {
    if constexpr (!Tiles::kFloats) tiles_.look_ahead(start, has(start) ? position_[rows_ - 1] : -1, few_rows_);
  }

  // Rows that see no key of the tile skip it. low_ and high_: the keys of the tile that a row sees, [low, high).
  void run_tile(std::int64_t start) {
    const TileRange range = range_of(start);
    if (range.begin >= range.end) return;
    if (loaded_ != start) load(start, range);
    look_ahead(start + kTileKeys);

    int first = rows_;
    int past = 0;
    for (int row = 0; row < rows_; ++row) {
      const std::int64_t position = position_[row];
      const std::int64_t low = first_visible(position) - start;
      low_[row] = low > 0 ? static_cast<int>(low) : 0;
      high_[row] = position - start + 1 < kTileKeys ? static_cast<int>(position - start + 1) : kTileKeys;
      if (low_[row] >= high_[row]) continue;
      first = row < first ? row : first;
      past = row + 1;
    }
    if (first >= past) return;
    for (int row = first; row < past; row += kGroup)
      run_rows(row, past - row < kGroup ? past : row + kGroup, start, range, row == first);
  }

  void run_rows(int first, int past, std::int64_t start, TileRange range, bool values) {
    for (int row = first; row < past;) row += scores(row, past - row);
    // Few rows leave long chains of sums, which the processor fills with unpacking if that stands behind them.
    for (int row = first; row < past; ++row) raise_max(row);
    if constexpr (!Tiles::kFloats)
      if (values) tiles_.load_values(start, range.begin, range.end, few_rows_);
    for (int row = first; row < past; row += V::kLanes) V::store(factors_ + row, V::exp(V::load(factors_ + row)));
    for (int row = first; row < past; ++row) take_exponentials(row);
    if (few_rows_) load_next(start + kTileKeys);
    for (int row = first; row < past;) row += weigh(row, rows_alike(row, past - row < kRows ? past - row : kRows));
  }

  // How many of the next rows see the same keys: only those go through weigh() together, so that a key which a row does
  // not see is not even multiplied by zero (it may be infinite or NaN).
  int rows_alike(int row, int left) const {
    int count = 1;
    while (count < left && low_[row + count] == low_[row] && high_[row + count] == high_[row]) ++count;
    return count;
  }

  int scores(int row, int left) {
    if constexpr (!Tiles::kFloats) {
      switch (tiles_.keys().numbers()) {
        case TileNumbers::f32:
          break;
        case TileNumbers::f16:
          return scores_of<TileF16<V>>(row, left);
        case TileNumbers::bf16:
          return scores_of<TileBf16<V>>(row, left);
        case TileNumbers::int8:
          return scores_of<TileInt8<V>>(row, left);
      }
    }
    return scores_of<TileF32<V>>(row, left);
  }

  template <class Keys>
  int scores_of(int row, int left) {
    switch (left < kRows ? left : kRows) {
      case 1:
        return scores_block<1, Keys>(row);
      case 2:
        return scores_block<2, Keys>(row);
      case 3:
        return scores_block<3, Keys>(row);
      case 4:
        return scores_block<4, Keys>(row);
      case 5:
        return scores_block<5, Keys>(row);
      default:
        return scores_block<6, Keys>(row);
    }
  }

  template <int kCount, class Keys>
  int scores_block(int row) {
    const float* q = queries_ + row * width_;
    for (int begin = 0; begin < kTileKeys; begin += kVecs * V::kLanes) {
      const void* blocks[kVecs];
      F sums[kCount][kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) blocks[v] = tiles_.keys().block((begin + v * V::kLanes) / kBlockKeys);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = V::zero();
      for (int part = 0; part < width_; part += kPart) {
        if (begin == 0) ask_for_keys();
        for (int d = part; d < part + kPart; ++d) {
          F k[kVecs];
#pragma GCC unroll 8
          for (int v = 0; v < kVecs; ++v) k[v] = Keys::at(blocks[v], d * kBlockKeys + v * V::kLanes % kBlockKeys);
#pragma GCC unroll 8
          for (int r = 0; r < kCount; ++r) {
            F one = V::all(q[r * width_ + d]);
            V::hold(one);
#pragma GCC unroll 8
            for (int v = 0; v < kVecs; ++v) sums[r][v] = V::fma(one, k[v], sums[r][v]);
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) V::store(scores_ + (row + r) * kTileKeys + begin + v * V::kLanes, sums[r][v]);
    }
    return kCount;
  }

  void ask_for_keys() {
    if constexpr (!Tiles::kFloats) tiles_.keys().ask_next(kPart);
  }

  // Scores become probabilities relative to the row's running maximum; what was summed before shrinks with it, by a
  // factor of 1 where the maximum stays. No branch asks whether: it would be a guess. This leaves the factor's
  // logarithm.
  void raise_max(int row) {
    float* s = scores_ + row * kTileKeys;
    const F scale = V::all(unit_.scale * unit_.key.scale * tiles_.keys().factor());
    const bool masked = low_[row] > 0 || high_[row] < kTileKeys;
    F most = V::all(kNone);
#pragma GCC unroll 8
    for (int i = 0; i < kTileVecs; ++i) {
      F x = V::mul(V::load(s + i * V::kLanes), scale);
      if constexpr (!Tiles::kFloats)
        if (unit_.key.scale_offset >= 0) x = V::mul(x, V::load(tiles_.keys().scales() + i * V::kLanes));
      if (unit_.soft_cap > 0) x = capped(x);
      if (masked) x = V::select_range(i * V::kLanes, low_[row], high_[row], x, V::all(kNone));
      V::store(s + i * V::kLanes, x);
      most = V::max(most, x);
    }
    const float tile_max = V::max_lane(most);
    const float before = max_[row];
    const float after = tile_max > before ? tile_max : before;
    max_[row] = after;
    factors_[row] = before == kNone ? 0.0f : before - after;  // nothing was summed
  }

  void take_exponentials(int row) {
    float* s = scores_ + row * kTileKeys;
    const F max = V::all(max_[row]);
    F sum = V::mul(V::all(factors_[row]), V::load(sum_ + row * V::kLanes));
#pragma GCC unroll 8
    for (int i = 0; i < kTileVecs; ++i) {
      F p = V::exp(V::sub(V::load(s + i * V::kLanes), max));
      sum = V::add(sum, p);
      if constexpr (!Tiles::kFloats)
        if (unit_.value.scale_offset >= 0) p = V::mul(p, V::load(tiles_.values().scales() + i * V::kLanes));
      V::store(s + i * V::kLanes, p);
    }
    V::store(sum_ + row * V::kLanes, sum);
  }

  F capped(F x) const {  // cap tanh(x / cap), tanh(y) = 1 - 2 / (e^2y + 1)
    const F e = V::exp(V::mul(x, V::all(2.0f / unit_.soft_cap)));
    const F tanh = V::sub(V::all(1.0f), V::div(V::all(2.0f), V::add(e, V::all(1.0f))));
    return V::mul(V::all(unit_.soft_cap), tanh);
  }

  int weigh(int row, int left) {
    if constexpr (!Tiles::kFloats) {
      switch (tiles_.values().numbers()) {
        case TileNumbers::f32:
          break;
        case TileNumbers::f16:
          return weigh_with<TileF16<V>>(row, left);
        case TileNumbers::bf16:
          return weigh_with<TileBf16<V>>(row, left);
        case TileNumbers::int8:
          return weigh_with<TileInt8<V>>(row, left);
      }
    }
    return weigh_with<TileF32<V>>(row, left);
  }

  template <class Values>
  int weigh_with(int row, int left) {
    switch (left < kRows ? left : kRows) {
      case 1:
        return weigh_rows<1, Values>(row);
      case 2:
        return weigh_rows<2, Values>(row);
      case 3:
        return weigh_rows<3, Values>(row);
      case 4:
        return weigh_rows<4, Values>(row);
      case 5:
        return weigh_rows<5, Values>(row);
      default:
        return weigh_rows<6, Values>(row);
    }
  }

  template <int kCount, class Values>
  int weigh_rows(int row) {
    int begin = 0;
    for (; begin + kVecs * V::kLanes <= value_width_; begin += kVecs * V::kLanes)
      weigh_block<kCount, kVecs, Values>(row, begin);
    for (; begin < value_width_; begin += V::kLanes) weigh_block<kCount, 1, Values>(row, begin);
    return kCount;
  }

  template <int kCount, int kWide, class Values>
  void weigh_block(int row, int begin) {
    float* numbers = numbers_ + row * value_width_ + begin;
    const std::int64_t value_width = value_width_;
    F sums[kCount][kWide];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kWide; ++v)
        sums[r][v] = V::mul(V::all(factors_[row + r]), V::load(numbers + r * value_width_ + v * V::kLanes));
    for (int low = low_[row], high; low < high_[row]; low = high) {
      high = (low / kBlockKeys + 1) * kBlockKeys < high_[row] ? (low / kBlockKeys + 1) * kBlockKeys : high_[row];
      const void* block = tiles_.values().block(low / kBlockKeys);
      const float* p = scores_ + row * kTileKeys + low;
      const float* end = p + (high - low);
      for (std::int64_t at = low % kBlockKeys * value_width + begin; p < end; ++p, at += value_width) {
        if constexpr (!Tiles::kFloats) tiles_.values().ask_for(low / kBlockKeys, at, kWide * V::kLanes);
        F x[kWide];
#pragma GCC unroll 8
        for (int v = 0; v < kWide; ++v) x[v] = Values::at(block, at + v * V::kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kCount; ++r) {
          F one = V::all(p[r * kTileKeys]);
          V::hold(one);
#pragma GCC unroll 8
          for (int v = 0; v < kWide; ++v) sums[r][v] = V::fma(one, x[v], sums[r][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kWide; ++v) V::store(numbers + r * value_width_ + v * V::kLanes, sums[r][v]);
  }

  void fold_span(std::int64_t span) {
    for (int row = 0; row < rows_; ++row)
      if (sees_span(row, span))
        fold(row, max_[row], V::sum(V::load(sum_ + row * V::kLanes)), numbers_ + row * value_width_);
  }

  void fold(int row, float max, float sum, const float* numbers) {
    const float before = total_max_[row];
    const float after = max > before ? max : before;
    const F old_factor = before == kNone ? V::zero() : V::exp(V::all(before - after));
    const F new_factor = V::exp(V::all(max - after));
    float sums[V::kLanes];
    V::store(sums, V::fma(V::all(sum), new_factor, V::mul(V::all(total_sum_[row]), old_factor)));
    total_sum_[row] = sums[0];
    total_max_[row] = after;
    float* total = total_ + row * value_width_;
    for (int i = 0; i < value_width_; i += V::kLanes)
      V::store(total + i, V::fma(V::load(numbers + i), new_factor, V::mul(V::load(total + i), old_factor)));
  }

  void leave_partial(std::int64_t span) {
    float* to = unit_.partial + (span - unit_.first_span) * rows_ * (value_width_ + 2);
    for (int row = 0; row < rows_; ++row, to += value_width_ + 2) {
      to[0] = max_[row];
      to[1] = V::sum(V::load(sum_ + row * V::kLanes));
      for (int i = 0; i < value_width_; i += V::kLanes)
        V::store(to + 2 + i, V::load(numbers_ + row * value_width_ + i));
    }
  }

  void take_carried() {
    const float* from = unit_.carried;
    for (int row = 0; row < rows_; ++row, from += value_width_ + 2) {
      total_max_[row] = from[0];
      total_sum_[row] = from[1];
      for (int i = 0; i < value_width_; i += V::kLanes)
        V::store(total_ + row * value_width_ + i, V::load(from + 2 + i));
    }
  }

  void leave_carried() const {
    float* to = unit_.carried;
    for (int row = 0; row < rows_; ++row, to += value_width_ + 2) {
      to[0] = total_max_[row];
      to[1] = total_sum_[row];
      for (int i = 0; i < value_width_; i += V::kLanes) V::store(to + 2 + i, V::load(total_ + row * value_width_ + i));
    }
  }

  // The sink joins the sum, what belongs to all values leaves it: one factor for the row.
  void store_row(int row) const {
    const float before = total_max_[row];
    float factors[V::kLanes];
    F factor = V::all(unit_.value.scale * tiles_.values().factor() / total_sum_[row]);
    if (unit_.sinks != nullptr) {
      const float sink = unit_.sinks[row % unit_.heads];
      const float after = sink > before ? sink : before;
      const F shrunk = V::exp(V::all(before - after));
      const F sum = V::fma(V::all(total_sum_[row]), shrunk, V::exp(V::all(sink - after)));
      factor = V::div(V::mul(shrunk, V::all(unit_.value.scale * tiles_.values().factor())), sum);
    }
    V::store(factors, factor);
    const std::int64_t offset = row / unit_.heads * unit_.out_token_stride + row % unit_.heads * unit_.out_head_stride;
    for (int i = 0; i < value_width_; i += V::kLanes) {
      const F x = V::mul(V::load(total_ + row * value_width_ + i), V::all(factors[0]));
      if (unit_.out_is_bf16)
        V::to_bf16(static_cast<std::uint16_t*>(unit_.out) + offset + i, x);
      else
        V::store(static_cast<float*>(unit_.out) + offset + i, x);
    }
  }

  const AttentionUnit& unit_;
  Tiles tiles_;
  const int rows_;
  const int width_;
  const int value_width_;
  const bool few_rows_;
  std::int64_t loaded_ = -1;  // the tile whose keys are readable
  int low_[kUnitRows];
  int high_[kUnitRows];
  std::int64_t position_[kUnitRows];
  float factors_[kUnitRows + V::kLanes] = {};  // what was summed so far is multiplied with
  float max_[kUnitRows];
  float total_max_[kUnitRows];
  float total_sum_[kUnitRows];
  alignas(64) float sum_[kUnitRows * V::kLanes];     // by lane
  alignas(64) float queries_[Tiles::kNumbers];       // [rows, width]
  alignas(64) float scores_[kUnitRows * kTileKeys];  // then probabilities
  alignas(64) float numbers_[Tiles::kNumbers];       // [rows, value_width] of the span
  alignas(64) float total_[Tiles::kNumbers];         // of the spans folded so far
};

template <class V>
void run_attention_unit(const AttentionUnit& unit) {
  if (unit.latent.width > 0)
    AttentionKernel<V, LatentTiles<V>>(unit).run();
  else
    AttentionKernel<V, GroupedTiles<V>>(unit).run();
}

template <class V>
void run_merge_attention(const AttentionUnit& unit) {
  if (unit.latent.width > 0)
    AttentionKernel<V, LatentTiles<V>>(unit).merge();
  else
    AttentionKernel<V, GroupedTiles<V>>(unit).merge();
}

}  // namespace octavo::cpu
