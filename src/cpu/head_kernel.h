// The steps of the cache's writer on vector paths: norm, rope and rotation of a head's row, then codes with the very
// arithmetic of kv/codec.h. Templates over a Vec, included by rows_<isa>.cc alone.
#pragma once

#include "cpu/row_kernel.h"

namespace octavo::cpu {

template <class V>
class HeadKernel {
 public:
  using F = typename V::F;

  static void run(const HeadTask& task) {
    float* row = task.out;
    F squares = V::zero();
    for (int i = 0; i < task.width; i += V::kLanes) {
      const F x = RowAccess<V>::load(task.x, i, task.width);
      squares = V::fma(x, x, squares);
      V::store(row + i, x);
    }
    if (task.normed) norm(task, squares);
    if (task.pairs > 0) turn(task);
    if (task.hadamard_block > 0) rotate(task);
  }

 private:
  static void norm(const HeadTask& task, F squares) {
    const F factor = V::all(norm_factor<V>(squares, task.width, task.eps));
    for (int i = 0; i < task.width; i += V::kLanes) {
      F y = V::mul(V::load(task.out + i), factor);
      if (task.weight != nullptr) y = V::mul(V::add(V::load(task.weight + i), V::all(task.offset)), y);
      V::store(task.out + i, y);
    }
  }

  static void turn(const HeadTask& task) {
    float* first = task.out;
    float* second = task.out + task.pairs;
    int i = 0;
    if (task.interleaved) return turn_interleaved(task);
    for (; i + V::kLanes <= task.pairs; i += V::kLanes) {
      const F a = V::load(first + i);
      const F b = V::load(second + i);
      const F cos = V::load(task.cos + i);
      const F sin = V::load(task.sin + i);
      V::store(first + i, V::sub(V::mul(a, cos), V::mul(b, sin)));
      V::store(second + i, V::add(V::mul(b, cos), V::mul(a, sin)));
    }
    for (; i < task.pairs; ++i) {
      const float a = first[i];
      const float b = second[i];
      first[i] = a * task.cos[i] - b * task.sin[i];
      second[i] = b * task.cos[i] + a * task.sin[i];
    }
  }

  static void turn_interleaved(const HeadTask& task) {
    float turned[kMaxWidth];
    for (int i = 0; i < task.pairs; ++i) {
      const float a = task.out[2 * i];
      const float b = task.out[2 * i + 1];
      turned[i] = a * task.cos[i] - b * task.sin[i];
      turned[i + task.pairs] = b * task.cos[i] + a * task.sin[i];
    }
    for (int i = 0; i < 2 * task.pairs; ++i) task.out[i] = turned[i];
  }

  // The order of sums of hadamard() in kv/codec.h: neighbours first.
  static void rotate(const HeadTask& task) {
    float* row = task.out;
    for (int i = 0; i < task.width; i += V::kLanes) {
      F x = V::template butterfly<4>(V::template butterfly<2>(V::template butterfly<1>(V::load(row + i))));
      if constexpr (V::kLanes == 16) x = V::template butterfly<8>(x);
      V::store(row + i, x);
    }
    for (int half = V::kLanes; half < task.hadamard_block; half *= 2)
      for (int begin = 0; begin < task.width; begin += 2 * half)
        for (int i = begin; i < begin + half; i += V::kLanes) {
          const F a = V::load(row + i);
          const F b = V::load(row + i + half);
          V::store(row + i, V::add(a, b));
          V::store(row + i + half, V::sub(a, b));
        }
    for (int i = 0; i < task.width; i += V::kLanes)
      V::store(row + i, V::mul(V::load(row + i), V::all(task.hadamard_norm)));
  }

  static constexpr int kMaxWidth = 1024;
};

template <class V>
class RowEncoder {
 public:
  using F = typename V::F;
  using I = typename V::I;

  static RowNotice e4m3(const float* row, int width, float scale, std::uint8_t* codes) {
    return float8<0x3C800000, 0x46800000, 20, 0x3C0, 0x43E00000, 0x7E>(row, width, scale, 0x1p14f, 448.0f, codes);
  }
  static RowNotice e5m2(const float* row, int width, float scale, std::uint8_t* codes) {
    return float8<0x38800000, 0x43000000, 21, 0x1C0, 0x47600000, 0x7B>(row, width, scale, 0x1p7f, 57344.0f, codes);
  }

  static RowNotice int8(const float* row, int width, float inverse, float limit, std::uint8_t* codes) {
    RowNotice notice;
    F most = V::zero();
    for (int i = 0; i < width; i += V::kLanes) {
      const F x = V::load(row + i);
      F scaled = V::mul(x, V::all(inverse));
      scaled = V::if_less(scaled, V::all(127.0f), scaled, V::if_nan(scaled, V::zero(), V::all(127.0f)));
      scaled = V::if_less(scaled, V::all(-127.0f), V::all(-127.0f), scaled);
      const I fixed = V::truncated(V::mul(scaled, V::all(0x1p24f)));
      const I odd = V::both(V::template right<24>(fixed), V::ints(1));
      V::store_bytes(codes + i, V::template right_signed<24>(V::plus(fixed, V::plus(odd, V::ints(0x7FFFFF)))));
      notice.saturated += V::count_greater(magnitude(x), V::all(limit));
      most = V::max(magnitude(x), most);
    }
    notice.amax = V::max_lane(most);
    return notice;
  }

  static RowNotice bf16(const float* row, int width, std::uint16_t* numbers) {
    return kept(row, width, [&](int i, F x) { V::to_bf16(numbers + i, x); });
  }
  static RowNotice f32(const float* row, int width, float* numbers) {
    return kept(row, width, [&](int i, F x) { V::store(numbers + i, x); });
  }

  static float amax(const float* row, int width) {
    I most = V::ints(0);
    for (int i = 0; i < width; i += V::kLanes) most = V::larger(V::bits(magnitude(V::load(row + i))), most);
    const int bits = V::largest(most);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  static F magnitude(F x) { return V::floats(V::both(V::bits(x), V::ints(0x7FFFFFFF))); }

  template <class Store>
  static RowNotice kept(const float* row, int width, Store store) {
    F most = V::zero();
    for (int i = 0; i < width; i += V::kLanes) {
      const F x = V::load(row + i);
      store(i, x);
      most = V::max(magnitude(x), most);
    }
    return {0, V::max_lane(most)};
  }

  // kSmall: bits below which codes are subnormal; kSmallBase: bits of `shift`, whose addition rounds those.
  template <int kSmall, int kSmallBase, int kDropped, int kBias, int kLarge, int kLargest>
  static RowNotice float8(const float* row, int width, float scale, float shift, float limit, std::uint8_t* codes) {
    RowNotice notice;
    F most = V::zero();
    for (int i = 0; i < width; i += V::kLanes) {
      const F raw = V::load(row + i);
      const F x = V::div(raw, V::all(scale));
      const I size = V::both(V::bits(x), V::ints(0x7FFFFFFF));
      const I sign = V::both(V::template right<24>(V::bits(x)), V::ints(0x80));
      const I odd = V::both(V::template right<kDropped>(size), V::ints(1));
      const I nearest = V::plus(size, V::plus(odd, V::ints((1 << (kDropped - 1)) - 1)));
      const I normal = V::plus(V::template right<kDropped>(nearest), V::ints(-kBias));
      const I small = V::plus(V::bits(V::add(V::floats(size), V::all(shift))), V::ints(-kSmallBase));
      I code = V::if_greater(V::ints(kSmall), size, small, normal);
      code = V::if_greater(V::ints(kLarge), size, code, V::ints(kLargest));
      code = V::if_greater(size, V::ints(0x7F800000), V::ints(0x7F), V::either(code, sign));
      V::store_bytes(codes + i, code);
      notice.saturated += V::count_greater(V::floats(size), V::all(limit));
      most = V::max(magnitude(raw), most);
    }
    notice.amax = V::max_lane(most);
    return notice;
  }
};

// cos and sin, of the float32 product as the models were trained: the turns are taken off in double, so that positions
// of any size keep the accuracy of small ones.
template <class V>
void run_angles(const float* inv_freq, std::int64_t pairs, float position, float factor, float* cos, float* sin) {
  using F = typename V::F;
  using I = typename V::I;
  using Rows = RowAccess<V>;
  for (std::int64_t i = 0; i < pairs; i += V::kLanes) {
    I turns;
    const F r = V::quarter_turns(V::mul(V::all(position), Rows::load_floats(inv_freq, i, pairs)), turns);
    const F square = V::mul(r, r);
    F s = V::fma(square, V::all(2.7557319e-6f), V::all(-1.9841270e-4f));
    s = V::fma(s, square, V::all(8.3333333e-3f));
    s = V::fma(s, square, V::all(-1.6666667e-1f));
    s = V::fma(V::mul(s, square), r, r);
    F c = V::fma(square, V::all(-2.7557319e-7f), V::all(2.4801587e-5f));
    c = V::fma(c, square, V::all(-1.3888889e-3f));
    c = V::fma(c, square, V::all(4.1666667e-2f));
    c = V::fma(c, square, V::all(-0.5f));
    c = V::fma(c, square, V::all(1.0f));
    const I odd = V::both(turns, V::ints(1));
    const F sine = V::floats(V::if_greater(odd, V::ints(0), V::bits(c), V::bits(s)));
    const F cosine = V::floats(V::if_greater(odd, V::ints(0), V::bits(s), V::bits(c)));
    const I half = V::both(turns, V::ints(2));  // sin changes its sign in the third and fourth quarter
    const I next = V::both(V::plus(turns, V::ints(1)), V::ints(2));
    const F minus = V::all(-factor);
    const F plus = V::all(factor);
    const F sine_factor = V::floats(V::if_greater(half, V::ints(0), V::bits(minus), V::bits(plus)));
    const F cosine_factor = V::floats(V::if_greater(next, V::ints(0), V::bits(minus), V::bits(plus)));
    Rows::store({sin, false}, i, pairs, V::mul(sine, sine_factor));
    Rows::store({cos, false}, i, pairs, V::mul(cosine, cosine_factor));
  }
}

}  // namespace octavo::cpu
