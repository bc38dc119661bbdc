// The gated delta rule of the vector paths, once for every instruction set: templates over a Vec, included by
// delta_<isa>.cc alone. Formulas and letters: models.md 5. Sums are float32; the logarithms of decays are summed in
// double, so that differences of large ones keep their digits.
//
// Token by token, the state is walked in columns that stay in the first-level cache. In chunks of n tokens with the
// sums G of the logarithms so far, all is products of matrices, with the state S before the chunk:
//   (I + A) N = beta (v - exp(G) k S)      A[i, j] = beta[i] (k[i] k[j]) exp(G[i] - G[j]), j < i
//   o = exp(G) q S + P N                   P[i, j] = (q[i] k[j]) exp(G[i] - G[j]), j <= i
//   S = exp(G[n - 1]) S + (k exp(G[n - 1] - G))^T N
#pragma once

#include "cpu/delta_tile.h"
#include "cpu/row_kernel.h"

namespace octavo::cpu {

template <class V>
class DeltaKernel {
 public:
  explicit DeltaKernel(const DeltaTile& tile)
      : tile_(tile), key_stride_(padded(tile.key_width)), value_stride_(padded(tile.value_width)) {
    const std::int64_t rows = tile.tokens < kDeltaChunk ? tile.tokens : kDeltaChunk;
    float* next = tile.scratch;
    state_ = is_state_padded() ? next : tile.state;
    next += tile.key_width * value_stride_;
    rows_ = next;
    next += 2 * rows * key_stride_;
    news_ = next;
    next += 2 * rows * value_stride_;
    turned_ = next;
    next += tile.key_width * kDeltaChunk;
    scores_ = next;
  }

  void run_tokens() {
    each_chunk([this](std::int64_t first, int n) {
      load_rows(first, n);
      std::int64_t column = 0;
      for (; column + kTokenVecs * V::kLanes <= value_stride_; column += kTokenVecs * V::kLanes)
        walk<kTokenVecs>(first, n, column);
      for (; column < value_stride_; column += kDeltaPad) walk<kDeltaPad / V::kLanes>(first, n, column);
    });
  }

  void run_chunks() {
    each_chunk([this](std::int64_t first, int n) {
      n_ = n;
      results_ = news_ + n * value_stride_;
      load_rows(first, n);
      sum_decays(first);
      turn_keys();
      product<false>({rows_, key_stride_}, 2 * n, {state_, value_stride_}, value_stride_, tile_.key_width,
                     {news_, value_stride_});
      make_scores();
      fade_scores();
      start_news(first);
      solve();
      add_results();
      update_state();
      store_results(first);
    });
  }

 private:
  using F = typename V::F;
  using Rows = RowAccess<V>;
  static constexpr int kTokenVecs = 4;
  static constexpr int kBlockRows = V::kAttentionRows;
  static constexpr int kBlockVecs = V::kAttentionVecs;
  // Decays beyond it are zero in float32, and sums of it stay small.
  static constexpr float kLeastLog = -1000.0f;

  struct Matrix {
    float* data;
    std::int64_t stride;
    float* row(std::int64_t i) const { return data + i * stride; }
  };

  static std::int64_t padded(std::int64_t n) { return (n + kDeltaPad - 1) / kDeltaPad * kDeltaPad; }
  bool is_state_padded() const { return value_stride_ != tile_.value_width; }

  float decay_of(std::int64_t t) const { return tile_.decay[t * tile_.decay_stride]; }
  float beta_of(std::int64_t t) const { return tile_.beta[t * tile_.beta_stride]; }

  // A state whose rows are not whole registers is worked on in a copy whose rows are.
  template <class Work>
  void each_chunk(Work work) {
    const std::int64_t width = tile_.value_width;
    if (is_state_padded())
      for (std::int64_t d = 0; d < tile_.key_width; ++d)
        for (std::int64_t c = 0; c < value_stride_; ++c)
          state_[d * value_stride_ + c] = c < width ? tile_.state[d * width + c] : 0.0f;
    for (std::int64_t first = 0; first < tile_.tokens; first += kDeltaChunk)
      work(first, static_cast<int>(tile_.tokens - first < kDeltaChunk ? tile_.tokens - first : kDeltaChunk));
    if (is_state_padded())
      for (std::int64_t d = 0; d < tile_.key_width; ++d)
        for (std::int64_t c = 0; c < width; ++c) tile_.state[d * width + c] = state_[d * value_stride_ + c];
  }

  // n unit keys, then n unit queries.
  void load_rows(std::int64_t first, int n) {
    const double scale = 1.0 / __builtin_sqrt(static_cast<double>(tile_.key_width));
    for (int i = 0; i < n; ++i) {
      load_unit(Rows::row_of(tile_.k, first + i), 1.0, rows_ + i * key_stride_);
      load_unit(Rows::row_of(tile_.q, first + i), scale, rows_ + (n + i) * key_stride_);
    }
  }

  void load_unit(const ActivationRow& row, double scale, float* to) const {
    F squares = V::zero();
    for (std::int64_t d = 0; d < key_stride_; d += V::kLanes) {
      const F x = Rows::load(row, d, tile_.key_width);
      squares = V::fma(x, x, squares);
      V::store(to + d, x);
    }
    const F factor = V::all(static_cast<float>(scale / __builtin_sqrt(static_cast<double>(V::sum(squares)) + 1e-6)));
    for (std::int64_t d = 0; d < key_stride_; d += V::kLanes) V::store(to + d, V::mul(V::load(to + d), factor));
  }

  template <int kVecs>
  void walk(std::int64_t first, int n, std::int64_t column) {
    for (int i = 0; i < n; ++i)
      take_token<kVecs>(first + i, rows_ + i * key_stride_, rows_ + (n + i) * key_stride_, column);
  }

  // The sums over even and odd rows are apart, so that one product need not wait for the one before.
  template <int kVecs>
  void take_token(std::int64_t t, const float* k, const float* q, std::int64_t column) {
    const F decay = V::all(static_cast<float>(__builtin_exp(static_cast<double>(decay_of(t)))));
    const F beta = V::all(beta_of(t));
    const std::int64_t even = tile_.key_width / 2 * 2;
    float* const state = state_ + column;
    F read[2][kVecs], delta[kVecs], out[2][kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) read[0][v] = read[1][v] = out[0][v] = out[1][v] = V::zero();
    for (std::int64_t d = 0; d < even; d += 2)
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) read_row<kVecs>(k[d + odd], state + (d + odd) * value_stride_, read[odd]);
    if (even < tile_.key_width) read_row<kVecs>(k[even], state + even * value_stride_, read[0]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F value = Rows::load(Rows::row_of(tile_.v, t), column + v * V::kLanes, tile_.value_width);
      delta[v] = V::mul(beta, V::sub(value, V::mul(decay, V::add(read[0][v], read[1][v]))));
    }
    for (std::int64_t d = 0; d < even; d += 2)
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd)
        write_row<kVecs>(k[d + odd], q[d + odd], decay, delta, state + (d + odd) * value_stride_, out[odd]);
    if (even < tile_.key_width) write_row<kVecs>(k[even], q[even], decay, delta, state + even * value_stride_, out[0]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      Rows::store(Rows::row_of(tile_.out, t), column + v * V::kLanes, tile_.value_width, V::add(out[0][v], out[1][v]));
  }

  template <int kVecs>
  [[gnu::always_inline]] static void read_row(float k, const float* state, F* read) {
    const F key = V::all(k);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) read[v] = V::fma(key, V::load(state + v * V::kLanes), read[v]);
  }

  template <int kVecs>
  [[gnu::always_inline]] static void write_row(float k, float q, F decay, const F* delta, float* state, F* out) {
    const F key = V::all(k);
    const F query = V::all(q);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F next = V::fma(key, delta[v], V::mul(decay, V::load(state + v * V::kLanes)));
      out[v] = V::fma(query, next, out[v]);
      V::store(state + v * V::kLanes, next);
    }
  }

  void sum_decays(std::int64_t first) {
    double sum = 0.0;
    for (int i = 0; i < n_; ++i) {
      const float log = decay_of(first + i);
      sum += static_cast<double>(log < kLeastLog ? kLeastLog : log);
      betas_[i] = beta_of(first + i);
      sums_[i] = sum;
      faded_[i] = static_cast<float>(sum);
    }
    for (int i = n_; i < kDeltaChunk; ++i) faded_[i] = 0.0f;
    for (int i = 0; i < n_; i += V::kLanes) V::store(faded_ + i, V::exp(V::load(faded_ + i)));
  }

  // Columns up to the next whole registers are zero.
  void turn_keys() {
    const std::int64_t columns = padded(n_);
    for (std::int64_t d = 0; d < tile_.key_width; ++d) {
      float* to = turned_ + d * kDeltaChunk;
      for (int j = 0; j < n_; ++j) to[j] = rows_[j * key_stride_ + d];
      for (std::int64_t j = n_; j < columns; ++j) to[j] = 0.0f;
    }
  }

  // Products of keys and of queries with the keys before them. Those with later ones are made only where they fill a
  // register.
  void make_scores() {
    for (int part = 0; part < 2; ++part)
      for (int begin = 0; begin < n_; begin += kDeltaPad) {
        const int end = n_ - begin < kDeltaPad ? n_ : begin + kDeltaPad;
        const int row = part * n_ + begin;
        product<false>({rows_ + row * key_stride_, key_stride_}, end - begin, {turned_, kDeltaChunk}, padded(end),
                       tile_.key_width, {scores_ + row * kDeltaChunk, kDeltaChunk});
      }
  }

  // Scores become -A and P, with zeros above the diagonal.
  void fade_scores() {
    for (int i = 0; i < n_; ++i) {
      float* const keys = scores_ + i * kDeltaChunk;
      float* const queries = scores_ + (n_ + i) * kDeltaChunk;
      alignas(64) float logs[kDeltaChunk];
      for (int j = 0; j < kDeltaChunk; ++j) logs[j] = j < i ? static_cast<float>(sums_[i] - sums_[j]) : 0.0f;
      const F beta = V::all(-betas_[i]);
      for (int at = 0; at < n_; at += V::kLanes) {
        const F decay = V::exp(V::load(logs + at));
        const F key = V::mul(beta, V::mul(V::load(keys + at), decay));
        const F query = V::mul(V::load(queries + at), decay);
        V::store(keys + at, V::select_range(at, 0, i, key, V::zero()));
        V::store(queries + at, V::select_range(at, 0, i + 1, query, V::zero()));
      }
    }
  }

  // news: beta (v - exp(G) k S), of k S; results: exp(G) q S, of q S.
  void start_news(std::int64_t first) {
    for (int i = 0; i < n_; ++i) {
      const F faded = V::all(faded_[i]);
      const F beta = V::all(betas_[i]);
      for (std::int64_t c = 0; c < value_stride_; c += V::kLanes) {
        float* const at = news_ + i * value_stride_ + c;
        float* const result = results_ + i * value_stride_ + c;
        const F value = Rows::load(Rows::row_of(tile_.v, first + i), c, tile_.value_width);
        V::store(at, V::mul(beta, V::sub(value, V::mul(faded, V::load(at)))));
        V::store(result, V::mul(faded, V::load(result)));
      }
    }
  }

  // Forwards, some rows at a time: what the rows before them give, then what they give each other.
  void solve() {
    for (int begin = 0; begin < n_; begin += kBlockRows) {
      const int end = n_ - begin < kBlockRows ? n_ : begin + kBlockRows;
      const Matrix given{scores_ + begin * kDeltaChunk, kDeltaChunk};
      product<true>(given, end - begin, {news_, value_stride_}, value_stride_, begin,
                    {news_ + begin * value_stride_, value_stride_});
      for (int i = begin + 1; i < end; ++i)
        for (int j = begin; j < i; ++j)
          add_row(given.row(i - begin)[j], news_ + j * value_stride_, news_ + i * value_stride_);
    }
  }
  void add_row(float factor, const float* from, float* to) const {
    const F each = V::all(factor);
    for (std::int64_t c = 0; c < value_stride_; c += V::kLanes)
      V::store(to + c, V::fma(each, V::load(from + c), V::load(to + c)));
  }

  void add_results() {
    for (int begin = 0; begin < n_; begin += kBlockRows) {
      const int end = n_ - begin < kBlockRows ? n_ : begin + kBlockRows;
      product<true>({scores_ + (n_ + begin) * kDeltaChunk, kDeltaChunk}, end - begin, {news_, value_stride_},
                    value_stride_, end, {results_ + begin * value_stride_, value_stride_});
    }
  }

  void update_state() {
    alignas(64) float left[kDeltaChunk];  // of each token's key, at the chunk's end
    for (int j = 0; j < kDeltaChunk; ++j) left[j] = j < n_ ? static_cast<float>(sums_[n_ - 1] - sums_[j]) : 0.0f;
    for (int j = 0; j < n_; j += V::kLanes) V::store(left + j, V::exp(V::load(left + j)));
    for (std::int64_t d = 0; d < tile_.key_width; ++d)
      for (int j = 0; j < n_; j += V::kLanes) {
        float* const at = turned_ + d * kDeltaChunk + j;
        V::store(at, V::mul(V::load(at), V::load(left + j)));
      }
    product<true>({turned_, kDeltaChunk}, tile_.key_width, {news_, value_stride_}, value_stride_, n_,
                  {state_, value_stride_}, faded_[n_ - 1]);
  }

  void store_results(std::int64_t first) const {
    for (int i = 0; i < n_; ++i)
      for (std::int64_t c = 0; c < value_stride_; c += V::kLanes)
        Rows::store(Rows::row_of(tile_.out, first + i), c, tile_.value_width,
                    V::load(results_ + i * value_stride_ + c));
  }

  // c = a b, or keep c + a b. columns: a multiple of kDeltaPad.
  template <bool kAdds>
  static void product(Matrix a, std::int64_t rows, Matrix b, std::int64_t columns, std::int64_t depth, Matrix c,
                      float keep = 1.0f) {
    constexpr std::int64_t kWide = kBlockVecs * V::kLanes;
    std::int64_t column = 0;
    for (; column + kWide <= columns; column += kWide) panel<kBlockVecs, kAdds>(a, rows, b, column, depth, c, keep);
    for (; column < columns; column += kWide / 2) panel<kBlockVecs / 2, kAdds>(a, rows, b, column, depth, c, keep);
  }

  template <int kVecs, bool kAdds>
  static void panel(Matrix a, std::int64_t rows, Matrix b, std::int64_t column, std::int64_t depth, Matrix c,
                    float keep) {
    std::int64_t i = 0;
    for (; i + kBlockRows <= rows; i += kBlockRows) block<kBlockRows, kVecs, kAdds>(a, i, b, column, depth, c, keep);
    for (; i + 2 <= rows; i += 2) block<2, kVecs, kAdds>(a, i, b, column, depth, c, keep);
    for (; i < rows; ++i) block<1, kVecs, kAdds>(a, i, b, column, depth, c, keep);
  }

  template <int kCount, int kVecs, bool kAdds>
  static void block(Matrix a, std::int64_t i, Matrix b, std::int64_t column, std::int64_t depth, Matrix c, float keep) {
    F sums[kCount][kVecs];
    const F kept = V::all(keep);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        sums[r][v] = kAdds ? V::mul(kept, V::load(c.row(i + r) + column + v * V::kLanes)) : V::zero();
    const float* left = a.row(i);
    const float* right = b.data + column;
    for (std::int64_t d = 0; d < depth; ++d, right += b.stride) {
      F numbers[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) numbers[v] = V::load(right + v * V::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        F one = V::all(left[r * a.stride + d]);
        V::hold(one);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = V::fma(one, numbers[v], sums[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) V::store(c.row(i + r) + column + v * V::kLanes, sums[r][v]);
  }

  const DeltaTile& tile_;
  const std::int64_t key_stride_;
  const std::int64_t value_stride_;
  int n_ = 0;                 // tokens of the chunk
  float* state_;              // [key_width, value_stride_]
  float* rows_;               // [2 n, key_stride_]: keys, then queries
  float* news_;               // [n, value_stride_]: N
  float* results_ = nullptr;  // [n, value_stride_]: o
  float* turned_;             // [key_width, kDeltaChunk]
  float* scores_;             // [2 n, kDeltaChunk]
  double sums_[kDeltaChunk];
  alignas(64) float faded_[kDeltaChunk];  // exp of the sums
  float betas_[kDeltaChunk];
};

}  // namespace octavo::cpu
