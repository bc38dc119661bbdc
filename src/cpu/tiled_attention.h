// attention of the vector paths: gives the plan's units to the threads, then merges what was split. Widths that are no
// multiple of 16 take the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic);
}
namespace avx512vnni {
void attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic);
}
namespace avx2 {
void attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic);
}

}  // namespace octavo::cpu
