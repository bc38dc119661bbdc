// The gated delta rule on AVX512: delta_kernel.h over vec_avx512.h.
#include "cpu/delta_kernel.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

void delta_tokens(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_tokens(); }
void delta_chunks(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_chunks(); }

}  // namespace octavo::cpu::avx512
