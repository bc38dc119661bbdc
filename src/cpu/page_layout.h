// PageLayout: where this wing keeps a token's numbers and scales inside a page. The one place that knows.
//
// A page is, head after head: the head's block of the first segment, then of the second (K, then V). Keys lie in blocks
// of kKeyLanes tokens (page_size, if that is less), [width, tokens]: a vector register takes one number of each token,
// and scores need no sum across a register. All other parts lie token after token, [page_size, width]. Behind the last
// head: for each segment with scales a token and head, [heads, page_size, page_scale_bytes()]. Nothing is padded: the
// bytes are bytes_per_page(format). All segments have the same number of heads.
#pragma once

#include <cstdint>

#include "kv/format.h"

namespace octavo::cpu {

constexpr int kKeyLanes = 16;

struct SegmentLayout {
  std::int64_t data = 0;          // bytes from the page's start to head 0, place 0
  std::int64_t head_stride = 0;   // bytes from a head to the next
  std::int64_t step = 0;          // bytes from a number of a token to its next number
  std::int64_t lanes = 1;         // tokens of a block, a power of two
  std::int64_t lane_bytes = 0;    // bytes from a token to the next of its block
  std::int64_t block_bytes = 0;   // bytes from a block to the next
  std::int64_t scales = -1;       // bytes to the scale of head 0, place 0; -1: no scales in the page
  std::int64_t scale_stride = 0;  // bytes from a head's scales to the next head's
  std::int64_t scale_bytes = 0;   // and from a place's to the next

  // The token's number 0; its others follow `step` bytes apart.
  constexpr std::int64_t row(int head, int place) const {
    return data + head * head_stride + place / lanes * block_bytes + place % lanes * lane_bytes;
  }
  constexpr std::int64_t scale(int head, int place) const { return scales + head * scale_stride + place * scale_bytes; }
};

struct PageLayout {
  SegmentLayout segments[kMaxSegments];
  std::int64_t bytes = 0;
};

constexpr PageLayout page_layout(const KvFormat& format, int page_size) {
  PageLayout layout;
  std::int64_t head_bytes = 0;
  for (int i = 0; i < format.num_segments; ++i) {
    SegmentLayout& segment = layout.segments[i];
    const std::int64_t bytes = elem_bytes(format.segments[i].elem);
    const std::int64_t row_bytes = format.segments[i].width * bytes;
    const bool lanes = format.segments[i].part == KvPart::key;
    segment.data = head_bytes;
    segment.lanes = !lanes ? 1 : page_size < kKeyLanes ? page_size : kKeyLanes;
    segment.step = segment.lanes * bytes;
    segment.lane_bytes = bytes;
    segment.block_bytes = segment.lanes * row_bytes;
    head_bytes += row_bytes * page_size;
  }
  layout.bytes = head_bytes * format.segments[0].heads;
  for (int i = 0; i < format.num_segments; ++i) {
    SegmentLayout& segment = layout.segments[i];
    segment.head_stride = head_bytes;
    segment.scale_bytes = page_scale_bytes(format.segments[i]);
    if (segment.scale_bytes == 0) continue;
    segment.scales = layout.bytes;
    segment.scale_stride = page_size * segment.scale_bytes;
    layout.bytes += segment.scale_stride * format.segments[i].heads;
  }
  return layout;
}

}  // namespace octavo::cpu
