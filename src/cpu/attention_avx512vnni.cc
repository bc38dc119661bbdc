// Attention of many rows on AVX-512 with VNNI: both products in whole numbers of 16 bits. Queries, keys and the numbers
// of V are as long as 32 bits allow (attention_pairs.h), probabilities have 13 bits beside the tile's largest: what
// that rounds lies far below the rounding of a bf16 result. Other units, and those with a number that is not finite, go
// through the floats of attention_kernel.h.
#include <immintrin.h>

#include "cpu/attention_pairs.h"

namespace octavo::cpu::avx512vnni {

namespace {

using F = __m512;

constexpr int kLanes = 16;
constexpr int kRows = 6;
constexpr int kGroup = 48;  // rows whose scores stay in the first-level cache
constexpr int kVecs = 4;
constexpr int kTileVecs = kTileKeys / kLanes;
constexpr int kProbabilityBits = 13;  // of a probability of 1
constexpr float kOne = 1 << kProbabilityBits;
constexpr float kNone = -__builtin_inff();
constexpr float kLog2e = 1.44269504f;

F all(float x) { return _mm512_set1_ps(x); }

// 2^x within 3e-6; 0 at -infinity.
F exp2(F x) {
  const F part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  F y = _mm512_fmadd_ps(all(0.0135341676f), part, all(0.0520114612f));
  y = _mm512_fmadd_ps(y, part, all(0.241442757f));
  y = _mm512_fmadd_ps(y, part, all(0.693003835f));
  y = _mm512_fmadd_ps(y, part, all(1.00000259f));
  return _mm512_scalef_ps(y, x);
}

__mmask16 lanes_in(int first, int low, int high) {
  const __m512i index = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                         _mm512_set1_epi32(first));
  return _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(low)) &
         _mm512_cmplt_epi32_mask(index, _mm512_set1_epi32(high));
}

class PairKernel {
 public:
  explicit PairKernel(const AttentionUnit& unit)
      : unit_(unit), rows_(unit.tokens * unit.heads), width_(unit.key.width), value_width_(unit.value.width) {
    for (int row = 0; row < rows_; ++row) position_[row] = unit.position + row / unit.heads;
  }

  // False where a number cannot be scaled; nothing is written then.
  bool run() {
    for (int row = 0; row < rows_; ++row)
      if (!load_query(row)) return false;
    start_rows();
    for (std::int64_t span = unit_.first_span; span <= unit_.last_span; ++span) {
      for (int tile = 0; tile < kSpanKeys / kTileKeys; ++tile)
        if (!run_tile(span * kSpanKeys + tile * kTileKeys)) return false;
      if (unit_.partial == nullptr) continue;
      leave_partial(span);
      start_rows();
    }
    if (unit_.partial == nullptr)
      for (int row = 0; row < rows_; ++row) store_row(row);
    return true;
  }

 private:
  std::int64_t first_visible(std::int64_t position) const {
    return unit_.window == 0 || position < unit_.window ? 0 : position - unit_.window + 1;
  }

  bool load_query(int row) {
    const float* from = unit_.q + row / unit_.heads * unit_.q_token_stride + row % unit_.heads * unit_.q_head_stride;
    F squares = _mm512_setzero_ps();
    F most = _mm512_setzero_ps();
    for (int i = 0; i < width_; i += kLanes) {
      const F x = _mm512_loadu_ps(from + i);
      squares = _mm512_fmadd_ps(x, x, squares);
      most = _mm512_max_ps(most, _mm512_abs_ps(x));
    }
    const float square = _mm512_reduce_add_ps(squares);
    if (square != 0 && !(square >= kLeastSquare && square < __builtin_huge_valf())) return false;
    const float by_length = __builtin_sqrtf(square) / kRowLength;
    const float by_largest = _mm512_reduce_max_ps(most) / kMostNumber;
    const float factor = by_length > by_largest ? by_length : by_largest;
    query_factors_[row] = factor;
    const F scale = all(square == 0 ? 0 : 1 / factor);
    for (int i = 0; i < width_; i += kLanes) {
      const __m512i x = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + i), scale));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(queries_ + row * width_ + i), _mm512_cvtepi32_epi16(x));
    }
    return true;
  }

  void start_rows() {
    for (int i = 0; i < rows_ * value_width_; i += kLanes) _mm512_storeu_ps(numbers_ + i, _mm512_setzero_ps());
    for (int row = 0; row < rows_; ++row) {
      max_[row] = kNone;
      _mm512_storeu_ps(sum_ + row * kLanes, _mm512_setzero_ps());
    }
  }

  // low_ and high_: the keys of the tile that a row sees, [low, high).
  bool run_tile(std::int64_t start) {
    int first = rows_;
    int past = 0;
    int low = kTileKeys;
    int high = 0;
    for (int row = 0; row < rows_; ++row) {
      const std::int64_t begin = first_visible(position_[row]) - start;
      const std::int64_t end = position_[row] - start + 1;
      low_[row] = begin > 0 ? static_cast<int>(begin < kTileKeys ? begin : kTileKeys) : 0;
      high_[row] = end < kTileKeys ? static_cast<int>(end > 0 ? end : 0) : kTileKeys;
      if (low_[row] >= high_[row]) continue;
      first = row < first ? row : first;
      past = row + 1;
      low = low_[row] < low ? low_[row] : low;
      high = high_[row] > high ? high_[row] : high;
    }
    if (first >= past) return true;
    if (!avx512::pack_keys(unit_, start, low, high, keys_)) return false;
    if (!avx512::pack_values(unit_, start, low, high, values_, weights_)) return false;
    const int halves = high > kTileKeys / 2 ? 2 : 1;
    for (int row = first; row < past; row += kGroup) run_rows(row, past - row < kGroup ? past : row + kGroup, halves);
    return true;
  }

  void run_rows(int first, int past, int halves) {
    for (int row = first; row < past; row += kRows) scores(row, past - row);
    for (int row = first; row < past; ++row) take_exponentials(row);
    for (int row = first; row < past; row += kLanes) {
      _mm512_storeu_ps(old_factors_ + row, exp2(_mm512_loadu_ps(old_factors_ + row)));
      _mm512_storeu_ps(new_factors_ + row, exp2(_mm512_loadu_ps(new_factors_ + row)));
    }
    for (int row = first; row < past; ++row) {
      float* sum = sum_ + row * kLanes;
      const F shrunk = _mm512_mul_ps(_mm512_load_ps(sum), all(old_factors_[row]));
      _mm512_store_ps(sum, _mm512_fmadd_ps(_mm512_load_ps(tile_sum_ + row * kLanes), all(new_factors_[row]), shrunk));
    }
    for (int row = first; row < past; row += kRows) weigh(row, past - row, halves);
  }

  void scores(int row, int left) {
    switch (left < kRows ? left : kRows) {
      case 1:
        return scores_block<1>(row);
      case 2:
        return scores_block<2>(row);
      case 3:
        return scores_block<3>(row);
      case 4:
        return scores_block<4>(row);
      case 5:
        return scores_block<5>(row);
      default:
        return scores_block<6>(row);
    }
  }

  // Without the query's factor.
  template <int kCount>
  void scores_block(int row) {
    const std::int16_t* q = queries_ + row * width_;
    __m512i sums[kCount][kTileVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) sums[r][v] = _mm512_setzero_si512();
    for (int d = 0; d < width_; d += 2) {
      __m512i k[kTileVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) k[v] = _mm512_load_si512(keys_.numbers + d * kTileKeys + v * 2 * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const __m512i pair = pair_at(q + r * width_ + d);
#pragma GCC unroll 8
        for (int v = 0; v < kTileVecs; ++v) add_products(sums[r][v], k[v], pair);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v)
        _mm512_store_ps(scores_ + (row + r) * kTileKeys + v * kLanes,
                        _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][v]), _mm512_load_ps(keys_.factors + v * kLanes)));
  }

  // The instruction itself: g++ would put every sum into another register, and most of them into memory.
  static void add_products(__m512i& sum, __m512i pairs, __m512i pair) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(pairs), "v"(pair));
  }

  // Held in a register: g++ would rather read it from memory at each use.
  static __m512i pair_at(const std::int16_t* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    __m512i pair = _mm512_set1_epi32(bits);
    asm("" : "+v"(pair));
    return pair;
  }

  // Leaves probabilities relative to the row's largest score in the tile, their sum, and the logarithms of what earlier
  // sums and this tile's shrink by.
  void take_exponentials(int row) {
    const float* s = scores_ + row * kTileKeys;
    const bool masked = low_[row] > 0 || high_[row] < kTileKeys;
    const float factor = unit_.soft_cap > 0 ? 1 : query_factors_[row];
    F x[kTileVecs];
    F most = all(kNone);
#pragma GCC unroll 8
    for (int v = 0; v < kTileVecs; ++v) {
      x[v] = _mm512_load_ps(s + v * kLanes);
      if (unit_.soft_cap > 0) x[v] = capped(_mm512_mul_ps(x[v], all(query_factors_[row])));
      if (masked) x[v] = _mm512_mask_blend_ps(lanes_in(v * kLanes, low_[row], high_[row]), all(kNone), x[v]);
      most = _mm512_max_ps(most, x[v]);
    }
    const float largest = _mm512_reduce_max_ps(most);
    note_max(row, largest * factor);
    const float scale = factor * kLog2e;
    F sum = _mm512_setzero_ps();
    __m512i p[kTileVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kTileVecs; ++v) {
      const F below = _mm512_mul_ps(_mm512_sub_ps(x[v], all(largest)), all(scale));
      F e = exp2(_mm512_add_ps(below, all(kProbabilityBits)));
      sum = _mm512_add_ps(sum, e);
      if (unit_.value.scale_offset >= 0) e = _mm512_mul_ps(e, _mm512_load_ps(weights_ + v * kLanes));
      p[v] = _mm512_cvtps_epi32(e);
    }
    _mm512_store_ps(tile_sum_ + row * kLanes, sum);
    std::int16_t* to = probabilities_ + row * kTileKeys;
    _mm512_store_si512(to, _mm512_packs_epi32(p[0], p[1]));
    _mm512_store_si512(to + kTileKeys / 2, _mm512_packs_epi32(p[2], p[3]));
  }

  void note_max(int row, float tile_max) {
    const float before = max_[row];
    const float after = tile_max > before ? tile_max : before;
    max_[row] = after;
    old_factors_[row] = (before - after) * kLog2e;
    new_factors_[row] = (tile_max - after) * kLog2e;
  }

  F capped(F x) const {  // cap tanh(x / cap), tanh(y) = 1 - 2 / (e^2y + 1)
    const F e = exp2(_mm512_mul_ps(x, all(2 * kLog2e / unit_.soft_cap)));
    const F tanh = _mm512_sub_ps(all(1), _mm512_div_ps(all(2), _mm512_add_ps(e, all(1))));
    return _mm512_mul_ps(all(unit_.soft_cap), tanh);
  }

  void weigh(int row, int left, int halves) {
    switch (left < kRows ? left : kRows) {
      case 1:
        return weigh_rows<1>(row, halves);
      case 2:
        return weigh_rows<2>(row, halves);
      case 3:
        return weigh_rows<3>(row, halves);
      case 4:
        return weigh_rows<4>(row, halves);
      case 5:
        return weigh_rows<5>(row, halves);
      default:
        return weigh_rows<6>(row, halves);
    }
  }

  template <int kCount>
  void weigh_rows(int row, int halves) {
    int begin = 0;
    for (; begin + kVecs * kLanes <= value_width_; begin += kVecs * kLanes)
      weigh_block<kCount, kVecs>(row, begin, halves);
    for (; begin < value_width_; begin += kLanes) weigh_block<kCount, 1>(row, begin, halves);
  }

  template <int kCount, int kWide>
  void weigh_block(int row, int begin, int halves) {
    const std::int16_t* p = probabilities_ + row * kTileKeys;
    const std::int16_t* values = values_.numbers + begin * 2;
    __m512i sums[kCount][kWide];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kWide; ++v) sums[r][v] = _mm512_setzero_si512();
    for (int key = 0; key < halves * kTileKeys / 2; key += 2, values += 2 * value_width_) {
      __m512i x[kWide];
#pragma GCC unroll 8
      for (int v = 0; v < kWide; ++v) x[v] = _mm512_loadu_si512(values + v * 2 * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const __m512i pair = pair_at(p + r * kTileKeys + key);
#pragma GCC unroll 8
        for (int v = 0; v < kWide; ++v) add_products(sums[r][v], x[v], pair);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      float* numbers = numbers_ + (row + r) * value_width_ + begin;
      const F added = all(new_factors_[row + r]);
#pragma GCC unroll 8
      for (int v = 0; v < kWide; ++v) {
        const F shrunk = _mm512_mul_ps(_mm512_loadu_ps(numbers + v * kLanes), all(old_factors_[row + r]));
        const F factor = _mm512_mul_ps(_mm512_loadu_ps(values_.factors + begin + v * kLanes), added);
        _mm512_storeu_ps(numbers + v * kLanes, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][v]), factor, shrunk));
      }
    }
  }

  // As merge_attention() of the floats takes it, which multiplies with the factor of its own tiles at the end.
  void leave_partial(std::int64_t span) {
    float* to = unit_.partial + (span - unit_.first_span) * rows_ * (value_width_ + 2);
    const F factor = all((unit_.value.kind == CacheKind::e4m3 ? 1 / 256.0f : 1) / kOne);
    for (int row = 0; row < rows_; ++row, to += value_width_ + 2) {
      to[0] = max_[row];
      to[1] = _mm512_reduce_add_ps(_mm512_load_ps(sum_ + row * kLanes)) / kOne;
      for (int i = 0; i < value_width_; i += kLanes)
        _mm512_storeu_ps(to + 2 + i, _mm512_mul_ps(_mm512_loadu_ps(numbers_ + row * value_width_ + i), factor));
    }
  }

  // The sink joins the sum.
  void store_row(int row) const {
    float sum = _mm512_reduce_add_ps(_mm512_load_ps(sum_ + row * kLanes)) / kOne;
    float factor = unit_.value.scale / kOne;
    if (unit_.sinks != nullptr) {
      const float sink = unit_.sinks[row % unit_.heads];
      const float after = sink > max_[row] ? sink : max_[row];
      const float shrunk = _mm512_cvtss_f32(exp2(all((max_[row] - after) * kLog2e)));
      sum = sum * shrunk + _mm512_cvtss_f32(exp2(all((sink - after) * kLog2e)));
      factor *= shrunk;
    }
    const F all_factor = all(factor / sum);
    auto* out = static_cast<std::uint16_t*>(unit_.out) + row / unit_.heads * unit_.out_token_stride +
                row % unit_.heads * unit_.out_head_stride;
    for (int i = 0; i < value_width_; i += kLanes)
      to_bf16(out + i, _mm512_mul_ps(_mm512_loadu_ps(numbers_ + row * value_width_ + i), all_factor));
  }

  // Of finite numbers, to the nearest even.
  static void to_bf16(std::uint16_t* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }

  const AttentionUnit& unit_;
  const int rows_;
  const int width_;
  const int value_width_;
  int low_[kUnitRows];
  int high_[kUnitRows];
  std::int64_t position_[kUnitRows];
  float query_factors_[kUnitRows];
  float max_[kUnitRows];
  float old_factors_[kUnitRows + kLanes] = {};
  float new_factors_[kUnitRows + kLanes] = {};
  alignas(64) float weights_[kTileKeys];
  alignas(64) float sum_[kUnitRows * kLanes];  // by lane
  alignas(64) float tile_sum_[kUnitRows * kLanes];
  alignas(64) std::int16_t queries_[kUnitNumbers];                 // [rows, width]
  alignas(64) float scores_[kUnitRows * kTileKeys];                // [rows, keys]
  alignas(64) std::int16_t probabilities_[kUnitRows * kTileKeys];  // [rows, pairs, 2]
  alignas(64) float numbers_[kUnitNumbers];                        // [rows, value_width]
  PairTile keys_;
  PairTile values_;
};

bool takes_pairs(const AttentionUnit& unit) {
  return unit.latent.width == 0 && unit.carried == nullptr && unit.out_is_bf16 && unit.key.kind != CacheKind::f32 &&
         unit.value.kind != CacheKind::f32 && unit.key.width <= kMaxPairWidth && unit.value.width <= kMaxPairWidth &&
         unit.tokens * unit.heads > kRows;
}

}  // namespace

void attention_unit(const AttentionUnit& unit) {
  if (takes_pairs(unit) && PairKernel(unit).run()) return;
  avx512::attention_unit(unit);
}

}  // namespace octavo::cpu::avx512vnni
