// Tiles of the cache as pairs of 16-bit integers (attention_pairs.h).
#include "cpu/attention_pairs.h"
#include "cpu/cache_tile.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

namespace {

using F = Vec::F;

constexpr int kLargerMagnitude = 0xB;  // of vrangeps: without its sign

// What vectors with these squares of lengths and largest numbers are multiplied with to have `length`; false where one
// is too long or short for it.
bool scales_of(F squares, F most, float length, F& scale, F& factor) {
  const __mmask16 some = _mm512_cmp_ps_mask(squares, Vec::zero(), _CMP_NEQ_UQ);
  const __mmask16 good = _mm512_cmp_ps_mask(squares, Vec::all(kLeastSquare), _CMP_GE_OQ) &
                         _mm512_cmp_ps_mask(squares, Vec::all(__builtin_huge_valf()), _CMP_LT_OQ);
  factor = Vec::max(Vec::mul(_mm512_maskz_sqrt_ps(some, squares), Vec::all(1 / length)),
                    Vec::mul(most, Vec::all(1 / kMostNumber)));
  scale = _mm512_maskz_div_ps(some, Vec::all(1), factor);
  return good == some;
}

// Lower and upper halves of 32 bits.
__m512i paired(F lower, F upper) {
  const __m512i high = _mm512_slli_epi32(_mm512_cvtps_epi32(upper), 16);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_cvtps_epi32(lower), high);
}

__mmask16 lanes_of(int first, int low, int end) {
  const __m512i index = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                         _mm512_set1_epi32(first));
  return _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(low)) &
         _mm512_cmplt_epi32_mask(index, _mm512_set1_epi32(end));
}

// Sixteen keys.
bool pack_block(const float* block, int width, __mmask16 seen, std::int16_t* to, F& factor) {
  F squares[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  F most[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  for (int d = 0; d < width; d += 4)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F x = Vec::load(block + (d + i) * kBlockKeys);
      squares[i] = Vec::fma(x, x, squares[i]);
      most[i] = _mm512_range_ps(x, most[i], kLargerMagnitude);
    }
  const F square = Vec::add(Vec::add(squares[0], squares[1]), Vec::add(squares[2], squares[3]));
  const F largest = Vec::max(Vec::max(most[0], most[1]), Vec::max(most[2], most[3]));
  F scale;
  if (!scales_of(_mm512_maskz_mov_ps(seen, square), _mm512_maskz_mov_ps(seen, largest), kRowLength, scale, factor))
    return false;
  for (int d = 0; d < width; d += 2) {
    const F lower = _mm512_maskz_mul_ps(seen, Vec::load(block + d * kBlockKeys), scale);
    const F upper = _mm512_maskz_mul_ps(seen, Vec::load(block + (d + 1) * kBlockKeys), scale);
    _mm512_storeu_si512(to + d * kTileKeys, paired(lower, upper));
  }
  return true;
}

void clear_block(int width, std::int16_t* to) {
  for (int d = 0; d < width; d += 2) _mm512_storeu_si512(to + d * kTileKeys, _mm512_setzero_si512());
}

// Values of a tile, zeros where no row sees them.
template <bool kWhole>
class ValueColumns {
 public:
  ValueColumns(const SegmentTile<Vec>& tile, int width, int low, int end) : width_(width), low_(low), end_(end) {
    for (int i = 0; i < kTileBlocks; ++i) blocks_[i] = static_cast<const float*>(tile.block(i));
  }

  // Sixteen numbers of all keys.
  bool pack(int column, PairTile& tile) const {
    F squares[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
    for (int key = 0; key < kTileKeys; key += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const F x = at(key + i, column);
        squares[i] = Vec::fma(x, x, squares[i]);
      }
    const F square = Vec::add(Vec::add(squares[0], squares[1]), Vec::add(squares[2], squares[3]));
    F scale;
    F factor;
    if (!scales_of(square, Vec::zero(), kColumnLength, scale, factor)) return false;
    Vec::store(tile.factors + column, factor);
    std::int16_t* to = tile.numbers + column * 2;
#pragma GCC unroll 4
    for (int pair = 0; pair < kTilePairs; ++pair, to += 2 * width_) {
      const int key = first_key(pair);
      _mm512_storeu_si512(to, paired(Vec::mul(at(key, column), scale), Vec::mul(at(key + 1, column), scale)));
    }
    return true;
  }

 private:
  F at(int key, int column) const {
    if (!kWhole && (key < low_ || key >= end_)) return Vec::zero();
    return Vec::load(blocks_[key / kBlockKeys] + std::int64_t{key % kBlockKeys} * width_ + column);
  }

  const std::int64_t width_;
  const int low_;
  const int end_;
  const float* blocks_[kTileBlocks];
};

template <bool kWhole>
bool pack_columns(const SegmentTile<Vec>& floats, int width, int low, int end, PairTile& tile) {
  const ValueColumns<kWhole> values(floats, width, low, end);
  for (int column = 0; column < width; column += Vec::kLanes)
    if (!values.pack(column, tile)) return false;
  return true;
}

}  // namespace

bool pack_keys(const AttentionUnit& unit, std::int64_t start, int low, int end, PairTile& tile) {
  SegmentTile<Vec> floats(unit, unit.key, true);
  floats.load(start, low / kBlockKeys * kBlockKeys, end, false);
  floats.look_ahead(start + kTileKeys, unit.position + unit.tokens - 1, false);
  const F all = Vec::all(unit.scale * unit.key.scale * floats.factor());
  for (int i = 0; i < kTileBlocks; ++i) {
    std::int16_t* to = tile.numbers + i * kBlockKeys * 2;
    const __mmask16 seen = lanes_of(i * kBlockKeys, low, end);
    F factor = Vec::zero();
    if (seen == 0)
      clear_block(unit.key.width, to);
    else if (!pack_block(static_cast<const float*>(floats.block(i)), unit.key.width, seen, to, factor))
      return false;
    factor = Vec::mul(factor, all);
    if (unit.key.scale_offset >= 0)
      factor = _mm512_maskz_mul_ps(seen, factor, Vec::load(floats.scales() + i * kBlockKeys));
    Vec::store(tile.factors + i * kBlockKeys, factor);
  }
  return true;
}

bool pack_values(const AttentionUnit& unit, std::int64_t start, int low, int end, PairTile& tile, float* weights) {
  SegmentTile<Vec> floats(unit, unit.value, false);
  floats.load(start, low / kBlockKeys * kBlockKeys, end, false);
  floats.look_ahead(start + kTileKeys, unit.position + unit.tokens - 1, false);
  const int width = unit.value.width;
  const bool whole = low == 0 && end == kTileKeys;
  if (!(whole ? pack_columns<true> : pack_columns<false>)(floats, width, low, end, tile)) return false;
  float most = 1;
  for (int i = 0; i < kTileKeys; ++i) weights[i] = 1;
  if (unit.value.scale_offset >= 0) {
    most = 0;
    for (int key = low; key < end; ++key) most = floats.scales()[key] > most ? floats.scales()[key] : most;
    if (!(most > 0 && most < __builtin_huge_valf())) return false;
    for (int key = 0; key < kTileKeys; ++key) weights[key] = key < low || key >= end ? 0 : floats.scales()[key] / most;
  }
  const F all = Vec::all(most * floats.factor());
  for (int column = 0; column < width; column += Vec::kLanes)
    Vec::store(tile.factors + column, Vec::mul(Vec::load(tile.factors + column), all));
  return true;
}

}  // namespace octavo::cpu::avx512
