// grouped_linear of the vector paths: choices are sorted by expert, so that each expert's weights are read once for all
// of its rows, by the same tiles as linear's. Weights that no tile reads take the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic);
}
namespace avx2 {
void grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic);
}

}  // namespace octavo::cpu
