// A layer's cache as the units of attention_tile.h see it.
#pragma once

#include "cpu/attention_tile.h"
#include "cpu/page_layout.h"
#include "kv/view.h"

namespace octavo::cpu {

// Whether the vector paths have tiles for its widths.
bool has_tiles(const KvFormat& format);

// Sets the unit's segments and pages: of this sequence of the step and this KV head.
void point_at_cache(const KvView& kv, const PageLayout& layout, std::int32_t seq, int kv_head, AttentionUnit& unit);

}  // namespace octavo::cpu
