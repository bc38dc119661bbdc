// conv_update of the vector paths: channels in blocks, each over all tokens of a sequence. More taps than a tile takes,
// and rows of another dtype than f32 and bf16, go the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void conv_update(ThreadPool& pool, const ConvUpdateArgs& args);
}
namespace avx2 {
void conv_update(ThreadPool& pool, const ConvUpdateArgs& args);
}

}  // namespace octavo::cpu
