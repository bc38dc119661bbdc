// expanded_attention of the vector paths: of each head and block of queries a task, which makes the keys and values of
// a span of the cache at a time, as a page of floats that attention_tile.h's units read. What tiles do not take
// (widths, matrices) goes the plain way.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args);
}
namespace avx2 {
void expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args);
}

}  // namespace octavo::cpu
