// A tile of the cache as attention reads it: four blocks of keys, [width, 16], and of values, [16, width]. Templates
// over a Vec, for attention_kernel.h alone.
//
// Many rows: codes become floats once, in a buffer that stays in the first- and second-level caches. Few rows: numbers
// are read as they are and widened in registers, 8-bit floating codes as f16, which halves what goes through the
// caches. The numbers are the same either way. Scales stay apart. The bytes of the tile after this one are asked for
// beforehand: tiles of a page are short, and the processor's own guesses end with a run of addresses.
#pragma once

#include "cpu/attention_tile.h"

namespace octavo::cpu {

constexpr int kBlockKeys = 16;
constexpr int kTileBlocks = kTileKeys / kBlockKeys;

enum class TileNumbers : std::uint8_t { f32, f16, bf16, int8 };

template <class V>
struct TileF32 {
  static typename V::F at(const void* p, std::int64_t i) { return V::load(static_cast<const float*>(p) + i); }
};
template <class V>
struct TileF16 {
  static typename V::F at(const void* p, std::int64_t i) {
    return V::from_f16(static_cast<const std::uint16_t*>(p) + i);
  }
};
template <class V>
struct TileBf16 {
  static typename V::F at(const void* p, std::int64_t i) {
    return V::from_bf16(static_cast<const std::uint16_t*>(p) + i);
  }
};
template <class V>
struct TileInt8 {
  static typename V::F at(const void* p, std::int64_t i) { return V::from_i8(static_cast<const std::uint8_t*>(p) + i); }
};

// The blocks of one segment.
template <class V>
class SegmentTile {
 public:
  SegmentTile(const AttentionUnit& unit, const CacheSegment& segment, bool keys)
      : unit_(unit),
        segment_(segment),
        block_numbers_(std::int64_t{segment.width} * kBlockKeys),
        token_bytes_(std::int64_t{segment.width} * number_bytes()),
        whole_(unit.page_size % kTileKeys == 0),
        keys_(keys) {}

  // What an unpacked number is multiplied with besides the scale: e4m3 is unpacked 2^8 too small.
  float factor() const { return segment_.kind == CacheKind::e4m3 ? 256.0f : 1.0f; }

  // Makes [begin, end) of the tile at `start` readable; begin is a multiple of 16. Tokens up to the next multiple of 16
  // come along, whatever they are. Blocks outside repeat one inside: scores are computed of all, and masked.
  void load(std::int64_t start, int begin, int end, bool few_rows) {
    const bool joined = unit_.page_size < kBlockKeys;
    numbers_ = few_rows && !joined ? direct() : TileNumbers::f32;
    load_blocks(start, begin, end);
    if (nan_) [[unlikely]] {
      numbers_ = TileNumbers::f32;
      load_blocks(start, begin, end);
    }
  }

  // The tile at `start` is read next, as far as `last`. With many rows its bytes are asked for at once, with few rows
  // a little by each ask_next() and ask_for(). Of floats that would be more lines than the processor asks for at a
  // time. Behind the unit's last tile comes the first one of the next unit.
  void look_ahead(std::int64_t start, std::int64_t last, bool few_rows) {
    ahead_bytes_ = 0;
    asked_blocks_ = 0;
    asked_ = 0;
    if (start > last && few_rows && segment_.kind != CacheKind::f32)
      look_at(keys_ ? unit_.next_keys : unit_.next_values);
    if (start > last || unit_.page_size < kBlockKeys || segment_.kind == CacheKind::f32) return;
    for (int i = 0; i < kTileBlocks; ++i) {
      const std::int64_t position = start + i * kBlockKeys;
      if (i > 0 && whole_)
        ahead_[i] = ahead_[0] + i * kBlockKeys * token_bytes_;
      else
        ahead_[i] = position > last ? ahead_[0] : bytes_of(position);
    }
    if (segment_.scale_offset >= 0) {
      const std::uint8_t* scales = page_at(start) + segment_.scale_offset + start % unit_.page_size * 2;
      __builtin_prefetch(scales);
      __builtin_prefetch(scales + kTileKeys * 2 - 1);
    }
    if (few_rows) {
      ahead_bytes_ = number_bytes();
      return;
    }
    for (const std::uint8_t* block : ahead_)
      for (std::int64_t i = 0; i < kBlockKeys * token_bytes_; i += kLineBytes) __builtin_prefetch(block + i);
  }

  void look_at(const std::uint8_t* tile) {
    if (tile == nullptr) return;
    ahead_bytes_ = number_bytes();
    for (int i = 0; i < kTileBlocks; ++i) ahead_[i] = tile + i * kBlockKeys * token_bytes_;
  }

  // Asks for what lies where numbers [first, first + count) of this tile's block i do. The second-level cache takes
  // more at a time; few at once and in the order of their addresses come sooner.
  void ask_for(int i, std::int64_t first, int count) const {
    const std::uint8_t* at = ahead_[i] + first * ahead_bytes_;
    const std::uint8_t* end = at + count * ahead_bytes_;
    for (; at < end; at += kLineBytes) __builtin_prefetch(at, 0, 2);
  }
  // Asks for the next `count` times 64 numbers of the tile; count divides the width by 4.
  void ask_next(int count) {
    if (asked_blocks_ == kTileBlocks) return;
    ask_for(asked_blocks_, asked_, count * kTileKeys);
    asked_ += count * kTileKeys;
    if (asked_ < block_numbers_) return;
    asked_ = 0;
    ++asked_blocks_;
  }

  TileNumbers numbers() const { return numbers_; }
  const void* block(int i) const { return blocks_[i]; }
  const float* scales() const { return scales_; }  // [kTileKeys], where the cache has one a token and head
  // Of a block that was unpacked to floats, unlike cached ones.
  float* unpacked(int i) { return floats_ + i * block_numbers_; }
  const std::uint8_t* page_at(std::int64_t position) const {
    return unit_.pages + unit_.page_table[position / unit_.page_size] * unit_.page_bytes;
  }

 private:
  static constexpr std::int64_t kLineBytes = 64;

  TileNumbers direct() const {
    switch (segment_.kind) {
      case CacheKind::f32:
        return TileNumbers::f32;
      case CacheKind::bf16:
        return TileNumbers::bf16;
      case CacheKind::int8:
        return TileNumbers::int8;
      default:
        return TileNumbers::f16;
    }
  }
  int number_bytes() const { return segment_.kind == CacheKind::f32 ? 4 : segment_.kind == CacheKind::bf16 ? 2 : 1; }

  void load_blocks(std::int64_t start, int begin, int end) {
    nan_ = false;
    const std::uint8_t* tile = whole_ ? bytes_of(start) : nullptr;
    for (int i = begin / kBlockKeys; i * kBlockKeys < end; ++i) {
      const std::int64_t position = start + i * kBlockKeys;
      const int left = end - i * kBlockKeys;
      load_block(i, whole_ ? tile + i * kBlockKeys * token_bytes_ : bytes_at(position, left));
      if (segment_.scale_offset >= 0 && segment_.block_scales == 0)
        load_scales(position, left < kBlockKeys ? left : kBlockKeys, i);
    }
    for (int i = 0; i < kTileBlocks; ++i)
      if (i * kBlockKeys < begin || i * kBlockKeys >= end) blocks_[i] = blocks_[begin / kBlockKeys];
  }

  const std::uint8_t* bytes_of(std::int64_t position) const {
    return page_at(position) + segment_.offset + position % unit_.page_size * token_bytes_;
  }

  // The bytes of sixteen tokens; where pages have only eight, those of two that hold the next `left` tokens put
  // together.
  const std::uint8_t* bytes_at(std::int64_t position, int left) {
    if (unit_.page_size >= kBlockKeys) return bytes_of(position);
    const std::int64_t run = keys_ ? unit_.page_size * number_bytes() : unit_.page_size * token_bytes_;
    const std::int64_t runs = keys_ ? segment_.width : 1;
    const std::int64_t pages = kBlockKeys / unit_.page_size;
    for (std::int64_t p = 0; p < pages; ++p) {
      const bool held = p * unit_.page_size < left;
      const std::uint8_t* from = held ? page_at(position + p * unit_.page_size) + segment_.offset : nullptr;
      for (std::int64_t r = 0; r < runs; ++r)
        for (std::int64_t i = 0; i < run; ++i) joined_[(r * pages + p) * run + i] = held ? from[r * run + i] : 0;
    }
    return joined_;
  }

  void load_block(int i, const std::uint8_t* from) {
    if (numbers_ == TileNumbers::f16) {
      std::uint16_t* to = halves_ + i * block_numbers_;
      blocks_[i] = to;
      nan_ |= to_halves(from, to);
    } else if (numbers_ == TileNumbers::f32 && (segment_.kind != CacheKind::f32 || from == joined_)) {
      float* to = floats_ + i * block_numbers_;
      blocks_[i] = to;
      unpack(from, to);
    } else {
      blocks_[i] = from;
    }
  }

  // Whether there is a NaN that f16 does not show.
  bool to_halves(const std::uint8_t* from, std::uint16_t* to) const {
    if (segment_.kind == CacheKind::e4m3) return V::e4m3_as_f16(from, block_numbers_, to);
    V::e5m2_as_f16(from, block_numbers_, to);
    return false;
  }

  void unpack(const std::uint8_t* from, float* to) {
    switch (segment_.kind) {
      case CacheKind::f32:
        return each_vector(to, [&](std::int64_t i) { return TileF32<V>::at(from, i); });
      case CacheKind::bf16:
        return each_vector(to, [&](std::int64_t i) { return TileBf16<V>::at(from, i); });
      case CacheKind::int8:
        return each_vector(to, [&](std::int64_t i) { return TileInt8<V>::at(from, i); });
      default:
        if (to_halves(from, halves_))
          return each_vector(to,
                             [&](std::int64_t i) { return V::with_e4m3_nan(from + i, TileF16<V>::at(halves_, i)); });
        return each_vector(to, [&](std::int64_t i) { return TileF16<V>::at(halves_, i); });
    }
  }

  template <class Get>
  void each_vector(float* to, Get get) const {
    for (std::int64_t i = 0; i < block_numbers_; i += V::kLanes) V::store(to + i, get(i));
  }

  void load_scales(std::int64_t position, int count, int block) {
    std::uint16_t bits[kBlockKeys] = {};
    if (count == kBlockKeys && unit_.page_size >= kBlockKeys)
      __builtin_memcpy(bits, page_at(position) + segment_.scale_offset + position % unit_.page_size * 2, sizeof bits);
    else
      for (int i = 0; i < count; ++i)
        __builtin_memcpy(bits + i, page_at(position + i) + segment_.scale_offset + (position + i) % unit_.page_size * 2,
                         2);
    for (int i = 0; i < kBlockKeys; i += V::kLanes) V::store(scales_ + block * kBlockKeys + i, V::from_bf16(bits + i));
  }

  const AttentionUnit& unit_;
  const CacheSegment& segment_;
  const std::int64_t block_numbers_;
  const std::int64_t token_bytes_;
  const bool whole_;  // a tile lies in one page
  const bool keys_;
  int ahead_bytes_ = 0;                          // of a number of the tile to ask for; 0: none
  const std::uint8_t* ahead_[kTileBlocks] = {};  // and its blocks
  int asked_blocks_ = 0;                         // whole ones, by ask_next()
  std::int64_t asked_ = 0;                       // numbers of the next
  bool nan_ = false;
  TileNumbers numbers_ = TileNumbers::f32;
  const void* blocks_[kTileBlocks];
  alignas(64) float scales_[kTileKeys] = {};
  alignas(64) float floats_[kTileKeys * kMaxHeadWidth];
  alignas(64) std::uint16_t halves_[kTileKeys * kMaxHeadWidth];
  alignas(64) std::uint8_t joined_[kBlockKeys * kMaxHeadWidth * 4];
};

// The tile of a cache with keys and values.
template <class V>
class GroupedTiles {
 public:
  static constexpr bool kFloats = false;
  static constexpr int kNumbers = kUnitNumbers;

  explicit GroupedTiles(const AttentionUnit& unit) : keys_(unit, unit.key, true), values_(unit, unit.value, false) {}

  void load(std::int64_t start, int begin, int end, bool few_rows) { keys_.load(start, begin, end, few_rows); }
  void load_values(std::int64_t start, int begin, int end, bool few_rows) { values_.load(start, begin, end, few_rows); }
  void look_ahead(std::int64_t start, std::int64_t last, bool few_rows) {
    keys_.look_ahead(start, last, few_rows);
    values_.look_ahead(start, last, few_rows);
  }
  const SegmentTile<V>& keys() const { return keys_; }
  SegmentTile<V>& keys() { return keys_; }
  const SegmentTile<V>& values() const { return values_; }

 private:
  SegmentTile<V> keys_;
  SegmentTile<V> values_;
};

}  // namespace octavo::cpu
