// KvView: what a kernel is given to read or write one layer's cache. Plain data: pointers into device memory and counts.
//
// A page holds page_size tokens of one layer; page p starts at pages + p * page_bytes. The order of bytes inside a page is
// the wing's own (it is the same for every layer of a format; docs/kv-formats.md), their number is bytes_per_page(format).
// Page 0 is the sink: writes of padding go there, and table entries of pages that left a window point there.
// Bytes that no token has written are zero or what an earlier holder left, which is finite unless that holder's model
// produced a NaN (it stays a NaN in its token). So no product may reach a slot at or beyond a sequence's length: a wing
// whose kernels multiply whole tiles (0 * NaN is NaN) clears the rest of a page when it writes the page's first slot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/format.h"

namespace octavo {

// What kv_write noticed in one layer since the store was made. Updated with relaxed atomics or reductions by the wing.
struct KvCounters {
  std::uint64_t saturated = 0;  // numbers that were clipped to the largest code
  std::uint64_t written = 0;    // numbers stored
  float key_amax = 0;           // before scale and rounding, in the cache's basis
  float value_amax = 0;
};

struct KvView {
  KvFormat format;
  std::byte* pages = nullptr;
  std::int64_t page_bytes = 0;
  std::int32_t page_size = 0;   // tokens a page, a power of two >= 8
  std::int32_t num_pages = 0;   // the sink included
  const std::int32_t* page_table = nullptr;  // [num_seqs, max_pages]: page of tokens [i * page_size, ...) of a sequence
  std::int32_t max_pages = 0;
  // One scale a head for each segment, f32 [heads]; value = code * scale. Never null for grains tensor and head.
  const float* scales[kMaxSegments] = {};
  KvCounters* counters = nullptr;
};

}  // namespace octavo
