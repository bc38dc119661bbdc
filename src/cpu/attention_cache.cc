#include "cpu/attention_cache.h"

namespace octavo::cpu {

static_assert(kScaleNumbers == kScaleBlock);

namespace {

CacheKind kind_of(KvElem elem) {
  switch (elem) {
    case KvElem::f32:
      return CacheKind::f32;
    case KvElem::bf16:
      return CacheKind::bf16;
    case KvElem::e4m3:
      return CacheKind::e4m3;
    case KvElem::e5m2:
      return CacheKind::e5m2;
    case KvElem::int8:
      return CacheKind::int8;
  }
  return CacheKind::f32;
}

CacheSegment segment_of(const KvView& view, const PageLayout& layout, int index, int head) {
  const KvSegment& segment = view.format.segments[index];
  CacheSegment result;
  result.kind = kind_of(segment.elem);
  result.width = segment.width;
  result.offset = layout.segments[index].row(head, 0);
  if (page_scale_bytes(segment) > 0) result.scale_offset = layout.segments[index].scale(head, 0);
  if (segment.grain == KvGrain::token_block) result.block_scales = page_scale_bytes(segment) / 4;
  if (is_8bit(segment.elem) && (segment.grain == KvGrain::tensor || segment.grain == KvGrain::head))
    result.scale = view.scales[index][head];
  return result;
}

}  // namespace

bool has_tiles(const KvFormat& format) {
  const int most[] = {kMaxHeadWidth, is_latent(format) ? kMaxRopeWidth : kMaxHeadWidth};
  for (int i = 0; i < 2; ++i)
    if (format.segments[i].width % kKeyLanes != 0 || format.segments[i].width > most[i]) return false;
  return true;
}

void point_at_cache(const KvView& kv, const PageLayout& layout, std::int32_t seq, int kv_head, AttentionUnit& unit) {
  const CacheSegment first = segment_of(kv, layout, 0, kv_head);
  const CacheSegment second = segment_of(kv, layout, 1, kv_head);
  if (is_latent(kv.format)) {
    unit.latent = first;
    unit.rope = second;
    unit.key = {.kind = CacheKind::f32, .width = first.width + second.width};
    unit.value = {.kind = CacheKind::f32, .width = first.width};
  } else {
    unit.key = first;
    unit.value = second;
  }
  unit.pages = reinterpret_cast<const std::uint8_t*>(kv.pages);
  unit.page_bytes = kv.page_bytes;
  unit.page_size = kv.page_size;
  unit.page_table = kv.page_table + std::int64_t{seq} * kv.max_pages;
}

}  // namespace octavo::cpu
