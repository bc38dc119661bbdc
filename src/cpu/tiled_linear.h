// linear of the vector paths: cuts the work into LinearTiles for the threads. A weight that no tile reads (a rare
// dtype, or scales of an unusual grain) takes the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512vnni {
// Inputs of bf16 and a LaneWeight are multiplied in whole numbers (lane_tile.h); all else is avx512's.
void linear(ThreadPool& pool, const LinearArgs& args, bool deterministic);
}  // namespace avx512vnni
namespace avx512 {
void linear(ThreadPool& pool, const LinearArgs& args, bool deterministic);
}
namespace avx2 {
void linear(ThreadPool& pool, const LinearArgs& args, bool deterministic);
}

}  // namespace octavo::cpu
