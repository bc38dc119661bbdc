// How 32 weights of each kind, a group, become floats in registers. Templates over a Vec, for linear_kernel.h alone.
//
// A kind has blocks of kBytes that hold kGroups groups, a Scale a group, made ahead for some groups of a row
// (make_scales, whole blocks), and unpack(), which turns group `part` of a block into 32 / kLanes registers of values.
// The values are the same wherever they are unpacked.
#pragma once

#include "cpu/linear_tile.h"

namespace octavo::cpu {

constexpr int kGroup = 32;

struct NoScale {};
struct StepAndBase {
  float step;
  float base;
};

template <int kBytesOfBlock, int kGroupsOfBlock = 1>
struct BlockOf {
  static constexpr int kBytes = kBytesOfBlock;
  static constexpr int kGroups = kGroupsOfBlock;
};

// The part's row as an unpacker sees it.
struct WeightRow {
  const std::uint8_t* bytes = nullptr;
  const float* scale = nullptr;  // e4m3: scales of this row, one for scale_cols numbers
  std::int64_t scale_cols = 1;
  const std::uint8_t* exponents = nullptr;  // e2m1: one a group
};

template <class V>
struct UnpackF32 : BlockOf<128> {
  using Scale = NoScale;
  static void make_scales(const WeightRow&, std::int64_t, std::int64_t, Scale*) {}
  static void unpack(const std::uint8_t* p, int, const Scale&, typename V::F* w) {
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::load(reinterpret_cast<const float*>(p) + i * V::kLanes);
  }
};

template <class V>
struct UnpackF16 : BlockOf<64> {
  using Scale = NoScale;
  static void make_scales(const WeightRow&, std::int64_t, std::int64_t, Scale*) {}
  static void unpack(const std::uint8_t* p, int, const Scale&, typename V::F* w) {
    for (int i = 0; i < kGroup / V::kLanes; ++i)
      w[i] = V::from_f16(reinterpret_cast<const std::uint16_t*>(p) + i * V::kLanes);
  }
};

template <class V>
struct UnpackBf16 : BlockOf<64> {
  using Scale = NoScale;
  static void make_scales(const WeightRow&, std::int64_t, std::int64_t, Scale*) {}
  static void unpack(const std::uint8_t* p, int, const Scale&, typename V::F* w) {
    for (int i = 0; i < kGroup / V::kLanes; ++i)
      w[i] = V::from_bf16(reinterpret_cast<const std::uint16_t*>(p) + i * V::kLanes);
  }
};

template <class V>
struct UnpackE4m3 : BlockOf<32> {
  using Scale = float;  // 256 times the scale: codes are unpacked 2^8 too small
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    const std::int64_t reach = row.scale_cols / kGroup;  // groups that share a scale
    std::int64_t at = begin / reach;
    for (std::int64_t i = 0; i < count; ++at) {
      const std::int64_t end = (at + 1) * reach - begin;
      const Scale scale = 256.0f * row.scale[at];
      for (; i < count && i < end; ++i) scales[i] = scale;
    }
  }
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    V::e4m3(p, w);
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::mul(w[i], V::all(scale));
    if (V::any_e4m3_nan(p)) [[unlikely]]
      for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::with_e4m3_nan(p + i * V::kLanes, w[i]);
  }
};

template <class V>
struct UnpackE2m1 : BlockOf<16> {
  using Scale = float;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    V::e8m0(row.exponents + begin, count, scales);
  }
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) { V::e2m1(p, scale, w); }
};

// Blocks of a group that begin with an f16 d: value = d (q - zero).
template <class V, int kBytesOfBlock, int kZero>
struct CentredBlock : BlockOf<kBytesOfBlock> {
  using Scale = StepAndBase;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    for (std::int64_t i = 0; i < count; ++i) {
      float two[4];
      V::two_f16(row.bytes + (begin + i) * kBytesOfBlock, two);
      scales[i] = {two[0], -static_cast<float>(kZero) * two[0]};
    }
  }
};

// Those that begin with f16 d and m: value = d q + m.
template <class V, int kBytesOfBlock>
struct BasedBlock : BlockOf<kBytesOfBlock> {
  using Scale = StepAndBase;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    for (std::int64_t i = 0; i < count; ++i) V::two_f16(row.bytes + (begin + i) * kBytesOfBlock, &scales[i].step);
  }
};

template <class V>
struct UnpackQ40 : CentredBlock<V, 18, 8> {
  using Scale = StepAndBase;
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    V::nibbles(p + 2, scale.step, scale.base, w);
  }
};

template <class V>
struct UnpackQ41 : BasedBlock<V, 20> {
  using Scale = StepAndBase;
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    V::nibbles(p + 4, scale.step, scale.base, w);
  }
};

template <class V>
struct UnpackQ80 : BlockOf<34> {
  using Scale = float;
  static void make_scales(const WeightRow& row, std::int64_t begin, std::int64_t count, Scale* scales) {
    for (std::int64_t i = 0; i < count; ++i) {
      float two[4];
      V::two_f16(row.bytes + (begin + i) * kBytes, two);
      scales[i] = two[0];
    }
  }
  static void unpack(const std::uint8_t* p, int, const Scale& scale, typename V::F* w) {
    const typename V::F step = V::all(scale);
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::mul(V::from_i8(p + 2 + i * V::kLanes), step);
  }
};

}  // namespace octavo::cpu
