// The loops of cpu/peaks.h: templates over a Vec, included by peaks_<isa>.cc alone.
#pragma once

#include "cpu/peaks.h"

namespace octavo::cpu {

template <class V>
struct PeakKernel {
  using F = typename V::F;
  static constexpr int kSums = 12;  // more than the latency of two units hides, and fewer than there are registers
  static constexpr int kLoads = 8;
  static_assert(kPeakStep % (kLoads * V::kLanes) == 0);

  static float read(const float* numbers, std::int64_t count) {
    F sums[kLoads];
    for (F& sum : sums) sum = V::zero();
    for (std::int64_t i = 0; i < count; i += kLoads * V::kLanes)
#pragma GCC unroll 8
      for (int j = 0; j < kLoads; ++j) sums[j] = V::add(sums[j], V::load(numbers + i + j * V::kLanes));
    return sum_of(sums);
  }

  static float multiply_add(std::int64_t rounds) {
    F sums[kSums];
    for (F& sum : sums) sum = V::all(1.0f);
    const F factor = V::all(1e-8f * static_cast<float>(rounds));  // not known to the compiler, and below one
    for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
      for (int j = 0; j < kSums; ++j) sums[j] = V::fma(sums[j], factor, factor);
    return sum_of(sums);
  }

  template <int kCount>
  static float sum_of(const F (&sums)[kCount]) {
    F all = sums[0];
    for (int j = 1; j < kCount; ++j) all = V::add(all, sums[j]);
    return V::sum(all);
  }

  static constexpr Peaks kPeaks{.read = read, .multiply_add = multiply_add, .products = kSums * V::kLanes};
};

}  // namespace octavo::cpu
