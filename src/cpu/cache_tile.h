// A tile of the cache as floats in the first- and second-level caches: keys [width, kTileKeys], values [kTileKeys,
// width]. Codes become numbers once, for all query rows that read the tile; scales stay apart. Templates over a Vec,
// for attention_kernel.h alone.
#pragma once

#include "cpu/attention_tile.h"

namespace octavo::cpu {

constexpr int kBlockKeys = 16;

template <class V>
class CacheTile {
 public:
  explicit CacheTile(const AttentionUnit& unit) : unit_(unit) {}

  // What an unpacked number is multiplied with besides the scale: e4m3 is unpacked 2^8 too small.
  static float factor_of(CacheKind kind) { return kind == CacheKind::e4m3 ? 256.0f : 1.0f; }

  // Unpacks keys and values [begin, end) of the tile at `start`; begin is a multiple of 16. Keys up to the next
  // multiple of 16 are unpacked with them, whatever they are; the others become zero, since scores are computed of all.
  void load(std::int64_t start, int begin, int end) {
    for (int at = 0; at < kTileKeys; at += kBlockKeys) {
      if (at < begin || at >= end) {
        for (int i = 0; i < unit_.key.width; ++i) clear(keys_ + i * kTileKeys + at);
        clear(key_scales_ + at);
        clear(value_scales_ + at);
        continue;
      }
      const int count = end - at < kBlockKeys ? end - at : kBlockKeys;
      unpack(unit_.key.kind, block(unit_.key, start + at, count, true), std::int64_t{unit_.key.width} * kBlockKeys,
             keys_ + at, kTileKeys);
      unpack(unit_.value.kind, block(unit_.value, start + at, count, false),
             std::int64_t{unit_.value.width} * kBlockKeys, values_ + std::int64_t{at} * unit_.value.width, kBlockKeys);
      load_scales(unit_.key, start + at, count, key_scales_ + at);
      load_scales(unit_.value, start + at, count, value_scales_ + at);
    }
  }

  const float* keys() const { return keys_; }
  const float* values() const { return values_; }
  const float* key_scales() const { return key_scales_; }
  const float* value_scales() const { return value_scales_; }

 private:
  static void clear(float* sixteen) {
    for (int i = 0; i < kBlockKeys; i += V::kLanes) V::store(sixteen + i, V::zero());
  }
  static int bytes_of(CacheKind kind) { return kind == CacheKind::f32 ? 4 : kind == CacheKind::bf16 ? 2 : 1; }

  const std::uint8_t* page_at(std::int64_t position) const {
    return unit_.pages + unit_.page_table[position / unit_.page_size] * unit_.page_bytes;
  }

  // The bytes of sixteen tokens; where a page has only eight, two pages' are put together.
  const std::uint8_t* block(const CacheSegment& segment, std::int64_t position, int count, bool key) {
    const std::int64_t bytes = std::int64_t{segment.width} * bytes_of(segment.kind);  // of a token
    const std::int64_t place = position % unit_.page_size;
    if (unit_.page_size >= kBlockKeys) return page_at(position) + segment.offset + place * bytes;
    const std::int64_t run =
        key ? unit_.page_size * bytes_of(segment.kind) : unit_.page_size * bytes;  // contiguous bytes
    const std::int64_t runs = key ? segment.width : 1;
    const std::int64_t pages = kBlockKeys / unit_.page_size;
    for (std::int64_t p = 0; p < pages; ++p) {
      const std::uint8_t* from =
          p * unit_.page_size < count ? page_at(position + p * unit_.page_size) + segment.offset : nullptr;
      for (std::int64_t r = 0; r < runs; ++r)
        for (std::int64_t i = 0; i < run; ++i)
          joined_[(r * pages + p) * run + i] = from == nullptr ? std::uint8_t{0} : from[r * run + i];
    }
    return joined_;
  }

  void load_scales(const CacheSegment& segment, std::int64_t position, int count, float* to) const {
    if (segment.scale_offset < 0) return;
    std::uint16_t bits[kBlockKeys] = {};
    for (int i = 0; i < count; ++i) {
      const std::uint8_t* from = page_at(position + i) + segment.scale_offset + (position + i) % unit_.page_size * 2;
      __builtin_memcpy(bits + i, from, 2);
    }
    for (int i = 0; i < kBlockKeys; i += V::kLanes) V::store(to + i, V::from_bf16(bits + i));
  }

  // n numbers; each sixteen go `stride` floats after the sixteen before.
  void unpack(CacheKind kind, const std::uint8_t* from, std::int64_t n, float* to, std::int64_t stride) {
    switch (kind) {
      case CacheKind::f32:
        return each_vector(n, to, stride,
                           [&](std::int64_t i) { return V::load(reinterpret_cast<const float*>(from) + i); });
      case CacheKind::bf16:
        return each_vector(n, to, stride, [&](std::int64_t i) {
          return V::from_bf16(reinterpret_cast<const std::uint16_t*>(from) + i);
        });
      case CacheKind::int8:
        return each_vector(n, to, stride, [&](std::int64_t i) { return V::from_i8(from + i); });
      case CacheKind::e5m2:
        for (std::int64_t i = 0; i < n; i += 32) V::e5m2_as_f16(from + i, halves_ + i);
        return each_vector(n, to, stride, [&](std::int64_t i) { return V::from_f16(halves_ + i); });
      case CacheKind::e4m3:
        return unpack_e4m3(from, n, to, stride);
    }
  }

  void unpack_e4m3(const std::uint8_t* from, std::int64_t n, float* to, std::int64_t stride) {
    bool nan = false;
    for (std::int64_t i = 0; i < n; i += 32) {
      V::e4m3_as_f16(from + i, halves_ + i);
      nan |= V::any_e4m3_nan(from + i);
    }
    if (nan) [[unlikely]]
      return each_vector(n, to, stride,
                         [&](std::int64_t i) { return V::with_e4m3_nan(from + i, V::from_f16(halves_ + i)); });
    each_vector(n, to, stride, [&](std::int64_t i) { return V::from_f16(halves_ + i); });
  }

  template <class Get>
  static void each_vector(std::int64_t n, float* to, std::int64_t stride, Get get) {
    for (std::int64_t i = 0; i < n; i += kBlockKeys, to += stride)
      for (int j = 0; j < kBlockKeys; j += V::kLanes) V::store(to + j, get(i + j));
  }

  const AttentionUnit& unit_;
  alignas(64) float keys_[kMaxHeadWidth * kTileKeys];
  alignas(64) float values_[kTileKeys * kMaxHeadWidth];
  alignas(64) float key_scales_[kTileKeys];
  alignas(64) float value_scales_[kTileKeys];
  alignas(64) std::uint16_t halves_[kMaxHeadWidth * kBlockKeys];
  alignas(64) std::uint8_t joined_[kMaxHeadWidth * kBlockKeys * 4];
};

}  // namespace octavo::cpu
