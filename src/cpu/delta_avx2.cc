// The gated delta rule on AVX2: delta_kernel.h over vec_avx2.h.
#include "cpu/delta_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

void delta_tokens(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_tokens(); }
void delta_chunks(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_chunks(); }

}  // namespace octavo::cpu::avx2
