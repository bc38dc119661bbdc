// delta_rule of the vector paths: chunks of prompts in matrix form, few tokens and all deterministic ones in recurrent
// form, whose bits do not depend on how a sequence is cut. Rows of another dtype than f32 and bf16 go the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic);
}
namespace avx2 {
void delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic);
}

}  // namespace octavo::cpu
