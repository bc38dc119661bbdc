// head_linear of the vector paths: a tile a head and block of tokens. Matrices that tiles do not read take the plain
// path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void head_linear(ThreadPool& pool, const HeadLinearArgs& args);
}
namespace avx2 {
void head_linear(ThreadPool& pool, const HeadLinearArgs& args);
}

}  // namespace octavo::cpu
