#include "cpu/cache_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kv/codec.h"

namespace octavo::cpu {

namespace {

bool has_given_scale(const KvSegment& segment) {
  return is_8bit(segment.elem) && (segment.grain == KvGrain::tensor || segment.grain == KvGrain::head);
}

std::byte* page_of(const KvView& view, std::int64_t slot) {
  return view.pages + slot / view.page_size * view.page_bytes;
}

void count_row(const float* row, int width, RowCounts& counts) {
  counts.written += static_cast<std::uint64_t>(width);
  for (int i = 0; i < width; ++i) counts.amax = std::max(counts.amax, std::fabs(row[i]));  // max(a, NaN) is a
}

void write_int8(const float* row, int width, std::byte* to, std::int64_t step, std::byte* scale_to, RowCounts& counts) {
  const float amax = row_amax(row, width);
  const std::uint16_t scale = int8_scale(amax);
  const float inverse = int8_inverse(scale);
  const float limit = 127.0f * f32_from_bf16(scale);
  for (int i = 0; i < width; ++i) {
    to[i * step] = static_cast<std::byte>(int8_from_f32(row[i], inverse));
    if (std::fabs(row[i]) > limit && scale != 0) ++counts.saturated;  // infinities, and what is beyond 2^127
  }
  std::memcpy(scale_to, &scale, sizeof scale);
}

void write_float8(KvElem elem, float scale, const float* row, int width, std::byte* to, std::int64_t step,
                  RowCounts& counts) {
  for (int i = 0; i < width; ++i) {
    const float x = row[i] / scale;
    to[i * step] = static_cast<std::byte>(encode8(elem, x));
    if (std::fabs(x) > max_value(elem)) ++counts.saturated;
  }
}

// A scale of its own for each block of numbers. A NaN is no magnitude here: it becomes a NaN's code.
void write_blocks(KvElem elem, const float* row, int width, std::byte* to, std::int64_t step, std::byte* scales_to,
                  RowCounts& counts) {
  for (int begin = 0; begin < width; begin += kScaleBlock) {
    const int count = std::min(kScaleBlock, width - begin);
    float amax = 0.0f;
    for (int i = begin; i < begin + count; ++i) amax = std::max(amax, std::fabs(row[i]));
    const float scale = float8_scale(elem, amax);
    std::memcpy(scales_to + begin / kScaleBlock * 4, &scale, sizeof scale);
    if (scale > 0.0f) {
      RowCounts rounded;  // the largest number may come to lie a rounding above the largest code: nothing is clipped
      write_float8(elem, scale, row + begin, count, to + begin * step, step, rounded);
      counts.saturated += static_cast<std::uint64_t>(
          std::count_if(row + begin, row + begin + count, [](float x) { return std::isinf(x); }));
    } else {  // numbers too small to keep; NaN stays
      for (int i = begin; i < begin + count; ++i)
        to[i * step] = static_cast<std::byte>(std::isnan(row[i]) ? encode8(elem, row[i]) : 0);
    }
  }
}

void read_blocks(KvElem elem, const std::byte* from, std::int64_t step, const std::byte* scales, int width,
                 double* row) {
  for (int i = 0; i < width; ++i) {
    float scale;
    std::memcpy(&scale, scales + i / kScaleBlock * 4, sizeof scale);
    row[i] = static_cast<double>(scale) * decode8(elem, static_cast<std::uint8_t>(from[i * step]));
  }
}

void raise(float& shared, float value) {
  std::atomic_ref<float> atomic(shared);
  float seen = atomic.load(std::memory_order_relaxed);
  while (value > seen && !atomic.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void write_cache_row(const KvView& view, const PageLayout& layout, int segment, int head, std::int32_t slot,
                     const float* row, RowCounts& counts) {
  const KvSegment& kind = view.format.segments[segment];
  const int place = slot % view.page_size;
  std::byte* page = page_of(view, slot);
  std::byte* to = page + layout.segments[segment].row(head, place);
  const std::int64_t step = layout.segments[segment].step;
  count_row(row, kind.width, counts);
  switch (kind.elem) {
    case KvElem::f32:
      for (int i = 0; i < kind.width; ++i) std::memcpy(to + i * step, &row[i], sizeof(float));
      return;
    case KvElem::bf16:
      for (int i = 0; i < kind.width; ++i) {
        const std::uint16_t bits = bf16_from_f32(row[i]);
        std::memcpy(to + i * step, &bits, sizeof bits);
      }
      return;
    case KvElem::int8:
      return write_int8(row, kind.width, to, step, page + layout.segments[segment].scale(head, place), counts);
    case KvElem::e4m3:
    case KvElem::e5m2:
      if (kind.grain == KvGrain::token_block)
        return write_blocks(kind.elem, row, kind.width, to, step, page + layout.segments[segment].scale(head, place),
                            counts);
      return write_float8(kind.elem, has_given_scale(kind) ? view.scales[segment][head] : 1.0f, row, kind.width, to,
                          step, counts);
  }
}

std::int64_t slot_of(const KvView& view, std::int64_t seq, std::int64_t position) {
  check(position / view.page_size < view.max_pages, "a sequence is longer than its page table");
  const std::int32_t page = view.page_table[seq * view.max_pages + position / view.page_size];
  check(page >= 0 && page < view.num_pages, "a page beyond the cache");
  return std::int64_t{page} * view.page_size + position % view.page_size;
}

void read_cache_row(const KvView& view, const PageLayout& layout, int segment, int head, std::int64_t slot,
                    double* row) {
  const KvSegment& kind = view.format.segments[segment];
  const auto place = static_cast<int>(slot % view.page_size);
  const std::byte* page = page_of(view, slot);
  const std::byte* from = page + layout.segments[segment].row(head, place);
  const std::int64_t step = layout.segments[segment].step;
  if (kind.elem == KvElem::f32 || kind.elem == KvElem::bf16) {
    for (int i = 0; i < kind.width; ++i) {
      float number = 0.0f;
      std::uint16_t bits = 0;
      if (kind.elem == KvElem::f32) std::memcpy(&number, from + i * step, sizeof number);
      if (kind.elem == KvElem::bf16) std::memcpy(&bits, from + i * step, sizeof bits);
      row[i] = kind.elem == KvElem::f32 ? number : f32_from_bf16(bits);
    }
    return;
  }
  if (kind.grain == KvGrain::token_block)
    return read_blocks(kind.elem, from, step, page + layout.segments[segment].scale(head, place), kind.width, row);
  double scale = has_given_scale(kind) ? view.scales[segment][head] : 1.0;
  if (kind.grain == KvGrain::token_head) {
    std::uint16_t bits;
    std::memcpy(&bits, page + layout.segments[segment].scale(head, place), sizeof bits);
    scale = f32_from_bf16(bits);
  }
  for (int i = 0; i < kind.width; ++i) row[i] = scale * decode8(kind.elem, static_cast<std::uint8_t>(from[i * step]));
}

void check_view(const KvView& view, const PageLayout& layout) {
  check(view.format.num_segments == 2 && view.format.segments[0].heads == view.format.segments[1].heads,
        "a cache record has two segments of as many heads");
  check(view.pages != nullptr && view.page_size > 0 && view.page_bytes >= layout.bytes,
        "pages are too small for their format");
  for (int i = 0; i < view.format.num_segments; ++i) {
    const KvSegment& segment = view.format.segments[i];
    check((segment.elem == KvElem::int8) == (segment.grain == KvGrain::token_head),
          "int8 has a scale a token and head");
    check(!has_given_scale(segment) || view.scales[i] != nullptr, "a scale of the cache was not delivered");
  }
}

void add_counts(KvCounters& counters, const RowCounts& key, const RowCounts& value) {
  std::atomic_ref(counters.saturated).fetch_add(key.saturated + value.saturated, std::memory_order_relaxed);
  std::atomic_ref(counters.written).fetch_add(key.written + value.written, std::memory_order_relaxed);
  raise(counters.key_amax, key.amax);
  raise(counters.value_amax, value.amax);
}

void check_kv_write(const KvWriteArgs& args, const PageLayout& layout) {
  check_view(args.kv, layout);
  const std::int64_t tokens = args.k.empty() ? args.q.size(0) : args.k.size(0);
  const Tensor& query = args.query.values;
  check(query.dtype() == DType::f32 && query.size(0) == args.q.size(0) && query.size(1) == args.q.size(1) &&
            query.size(2) == args.q.size(2),
        "queries do not have the shape that query_spec() says");
  check(args.q.size(0) == tokens || (is_latent(args.kv.format) && args.q.size(0) < tokens), "one query a token");
  check(args.rope.inv_freq.empty() || args.positions.elements() == tokens, "rope needs one position a token");
  if (args.k.empty()) return;
  const KvFormat& format = args.kv.format;
  check(args.v.size(0) == tokens && args.slots.elements() == tokens, "one k, v and slot a token");
  check(args.k.size(1) == format.segments[0].heads && args.k.size(2) == format.segments[0].width &&
            args.v.size(1) == format.segments[1].heads && args.v.size(2) == format.segments[1].width,
        "k and v do not have the shape of the cache");
}

}  // namespace octavo::cpu
