// One head's row of a cached token: written into its place of a page and read back. The plain verbs' view of the cache.
#pragma once

#include <cstdint>

#include "cpu/page_layout.h"
#include "kv/view.h"
#include "ops/ops.h"

namespace octavo::cpu {

// What writing rows noticed; added to the layer's counters in one go.
struct RowCounts {
  std::uint64_t saturated = 0;
  std::uint64_t written = 0;
  float amax = 0.0f;  // a NaN does not raise it
};

// Divides by the scale, rounds with saturation and stores. The row is already in the cache's basis.
void write_cache_row(const KvView& view, const PageLayout& layout, int segment, int head, std::int32_t slot,
                     const float* row, RowCounts& counts);

// Where the cache has the token at this position of the step's sequence `seq`.
std::int64_t slot_of(const KvView& view, std::int64_t seq, std::int64_t position);

// The row's values, code times scale, exact.
void read_cache_row(const KvView& view, const PageLayout& layout, int segment, int head, std::int64_t slot,
                    double* row);

// Our own mistakes: a view whose sizes, scales or pages do not fit its format.
void check_view(const KvView& view, const PageLayout& layout);

// Our own mistakes: rows, slots or queries whose shapes do not fit the cache.
void check_kv_write(const KvWriteArgs& args, const PageLayout& layout);

// Adds to a layer's counters, from any thread.
void add_counts(KvCounters& counters, const RowCounts& key, const RowCounts& value);

}  // namespace octavo::cpu
