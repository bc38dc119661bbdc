// Rows of a weight as the kernels of linear_tile.h read them, and their results as they are stored. Templates over a
// Vec, for linear_kernel.h and turned_linear_kernel.h alone.
#pragma once

#include "cpu/linear_tile.h"
#include "cpu/packed_groups.h"
#include "cpu/weight_groups.h"

namespace octavo::cpu {

template <class V, class Unpack>
class TileRows {
 public:
  static constexpr std::int64_t kMaxGroups = 24;  // that unpack() takes at once

  explicit TileRows(const LinearTile& tile) : tile_(tile) {}

  WeightRow row(std::int64_t o) const {
    return {tile_.weight + o * tile_.row_bytes,
            tile_.scale == nullptr ? nullptr : tile_.scale + o / tile_.scale_rows * tile_.scale_stride,
            tile_.scale_cols, tile_.exponents == nullptr ? nullptr : tile_.exponents + o * tile_.exponent_stride};
  }

  static const std::uint8_t* block(const std::uint8_t* row, std::int64_t group) {
    return row + group / Unpack::kGroups * Unpack::kBytes;
  }
  static int part(std::int64_t group) { return static_cast<int>(group % Unpack::kGroups); }

  // The block of a group; the last one of a row that ends within a group is copied and filled with zeros.
  const std::uint8_t* filled_block(const std::uint8_t* row, std::int64_t group, std::uint8_t* copy) const {
    const std::uint8_t* p = block(row, group);
    const std::int64_t left = tile_.in - group * kGroup;
    if (left >= kGroup) return p;
    const std::int64_t bytes = left * Unpack::kBytes / kGroup;
    for (int i = 0; i < Unpack::kBytes; ++i) copy[i] = i < bytes ? p[i] : std::uint8_t{0};
    return copy;
  }

  // Groups [first, first + num) of row o as floats; `first` begins a block.
  void unpack(std::int64_t o, std::int64_t first, std::int64_t num, float* to) const {
    typename Unpack::Scale scales[kMaxGroups + 1];
    std::uint8_t copy[Unpack::kBytes];
    const WeightRow from = row(o);
    Unpack::make_scales(from, first, num, scales);
    for (std::int64_t g = 0; g < num; ++g) {
      typename V::F w[kGroup / V::kLanes];
      Unpack::unpack(filled_block(from.bytes, first + g, copy), part(first + g), scales[g], w);
      for (int i = 0; i < kGroup / V::kLanes; ++i) V::store(to + g * kGroup + i * V::kLanes, w[i]);
    }
  }

 private:
  const LinearTile& tile_;
};

// Columns [column, column + count) of row m of the result; y has room for whole registers.
template <class V>
void store_results(const LinearTile& tile, std::int64_t m, std::int64_t column, const float* y, std::int64_t count) {
  const std::int64_t offset = m * tile.out_stride + column;
  if (!tile.out_is_bf16) {
    for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(tile.out)[offset + i] = y[i];
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(tile.out) + offset;
  std::int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) V::to_bf16(to + i, V::load(y + i));
  if (i == count) return;
  std::uint16_t last[V::kLanes];
  V::to_bf16(last, V::load(y + i));
  for (std::int64_t j = 0; i + j < count; ++j) to[i + j] = last[j];
}

// The kernel for this tile's kind of weight.
template <class V, template <class, class> class Kernel>
void run_tile(const LinearTile& tile) {
  switch (tile.kind) {
    case WeightKind::f32:
      return Kernel<V, UnpackF32<V>>(tile).run();
    case WeightKind::f16:
      return Kernel<V, UnpackF16<V>>(tile).run();
    case WeightKind::bf16:
      return Kernel<V, UnpackBf16<V>>(tile).run();
    case WeightKind::e4m3:
      return Kernel<V, UnpackE4m3<V>>(tile).run();
    case WeightKind::e2m1:
      return Kernel<V, UnpackE2m1<V>>(tile).run();
    case WeightKind::q4_0:
      return Kernel<V, UnpackQ40<V>>(tile).run();
    case WeightKind::q4_1:
      return Kernel<V, UnpackQ41<V>>(tile).run();
    case WeightKind::q5_0:
      return Kernel<V, UnpackQ50<V>>(tile).run();
    case WeightKind::q5_1:
      return Kernel<V, UnpackQ51<V>>(tile).run();
    case WeightKind::q8_0:
      return Kernel<V, UnpackQ80<V>>(tile).run();
    case WeightKind::q4_k:
      return Kernel<V, UnpackQ4K<V>>(tile).run();
    case WeightKind::q5_k:
      return Kernel<V, UnpackQ5K<V>>(tile).run();
    case WeightKind::q6_k:
      return Kernel<V, UnpackQ6K<V>>(tile).run();
  }
}

}  // namespace octavo::cpu
