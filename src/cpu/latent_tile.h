// A tile of a latent cache as attention reads it: its rows become floats with their scales, which are the values, and
// are turned into keys beside the rope keys. Templates over a Vec, for attention_kernel.h alone.
#pragma once

#include "cpu/cache_tile.h"

namespace octavo::cpu {

// Sixteen rows, `stride` apart, turned: [width, 16].
template <class V>
void turn_block(const float* rows, std::int64_t stride, int width, float* to) {
  for (int d = 0; d < width; d += 4)
    for (int t = 0; t < kBlockKeys; t += V::kLanes) {
      typename V::F columns[4];
      V::turn_four(rows + t * stride + d, stride, columns);
      for (int c = 0; c < 4; ++c) V::store(to + (d + c) * kBlockKeys + t, columns[c]);
    }
}

// Blocks of floats that need nothing else.
struct FloatBlocks {
  const float* blocks[kTileBlocks];

  const void* block(int i) const { return blocks[i]; }
  float factor() const { return 1.0f; }
};

// The rows of one segment, scales applied.
template <class V>
class RowsTile {
 public:
  RowsTile(const AttentionUnit& unit, const CacheSegment& segment)
      : unit_(unit), segment_(segment), tile_(unit, segment, false) {}

  void load(std::int64_t start, int begin, int end) {
    tile_.load(start, begin, end, false);
    if (segment_.kind == CacheKind::f32 || segment_.kind == CacheKind::bf16) return;
    for (int token = begin; token < end; ++token) apply_scales(start + token, token);
  }
  const float* block(int i) const { return static_cast<const float*>(tile_.block(i)); }

 private:
  void apply_scales(std::int64_t position, int token) {
    float* row = tile_.unpacked(token / kBlockKeys) + std::int64_t{token % kBlockKeys} * segment_.width;
    for (int first = 0; first < segment_.width; first += kScaleNumbers) {
      const int end = first + kScaleNumbers < segment_.width ? first + kScaleNumbers : segment_.width;
      const typename V::F scale = V::all(tile_.factor() * scale_of(position, token, first / kScaleNumbers));
      for (int i = first; i < end; i += V::kLanes) V::store(row + i, V::mul(V::load(row + i), scale));
    }
  }

  float scale_of(std::int64_t position, int token, int block) const {
    if (segment_.scale_offset < 0) return segment_.scale;
    if (segment_.block_scales == 0) return tile_.scales()[token];
    const std::int64_t at = position % unit_.page_size * segment_.block_scales + block;
    float scale;
    __builtin_memcpy(&scale, tile_.page_at(position) + segment_.scale_offset + at * 4, sizeof scale);
    return scale;
  }

  const AttentionUnit& unit_;
  const CacheSegment& segment_;
  SegmentTile<V> tile_;
};

template <class V>
class LatentTiles {
 public:
  static constexpr bool kFloats = true;
  static constexpr int kNumbers = kLatentNumbers;

  explicit LatentTiles(const AttentionUnit& unit)
      : latent_width_(unit.latent.width),
        rope_width_(unit.rope.width),
        latent_(unit, unit.latent),
        rope_(unit, unit.rope) {}

  void load(std::int64_t start, int begin, int end, bool) {
    latent_.load(start, begin, end);
    rope_.load(start, begin, end);
    for (int i = begin / kBlockKeys; i * kBlockKeys < end; ++i) {
      float* block = turned_ + std::int64_t{i} * (latent_width_ + rope_width_) * kBlockKeys;
      turn_block<V>(latent_.block(i), latent_width_, latent_width_, block);
      turn_block<V>(rope_.block(i), rope_width_, rope_width_, block + std::int64_t{latent_width_} * kBlockKeys);
      keys_.blocks[i] = block;
    }
    for (int i = 0; i < kTileBlocks; ++i) {
      if (i * kBlockKeys < begin || i * kBlockKeys >= end) keys_.blocks[i] = keys_.blocks[begin / kBlockKeys];
      values_.blocks[i] = latent_.block(i);
    }
  }
  const FloatBlocks& keys() const { return keys_; }
  const FloatBlocks& values() const { return values_; }

 private:
  const int latent_width_;
  const int rope_width_;
  RowsTile<V> latent_;
  RowsTile<V> rope_;
  FloatBlocks keys_;
  FloatBlocks values_;
  alignas(64) float turned_[kTileKeys * (kMaxHeadWidth + kMaxRopeWidth)];
};

// Some tokens' rows, for unpack_latents().
template <class V>
void copy_rows(const RowsTile<V>& tile, int width, int count, std::int64_t stride, float* to) {
  for (int i = 0; i * kBlockKeys < count; ++i)
    for (int t = 0; t < kBlockKeys; ++t)
      for (int d = 0; d < width; d += V::kLanes)
        V::store(to + (i * kBlockKeys + t) * stride + d, V::load(tile.block(i) + std::int64_t{t} * width + d));
}

template <class V>
void run_unpack_latents(const AttentionUnit& unit, std::int64_t start, int count, float* latents,
                        std::int64_t latent_stride, float* ropes) {
  RowsTile<V> latent(unit, unit.latent);
  latent.load(start, 0, count);
  copy_rows<V>(latent, unit.latent.width, count, latent_stride, latents);
  RowsTile<V> rope(unit, unit.rope);
  rope.load(start, 0, count);
  copy_rows<V>(rope, unit.rope.width, count, unit.rope.width, ropes);
}

}  // namespace octavo::cpu
