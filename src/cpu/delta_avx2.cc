// Recurrent layers on AVX2: conv_kernel.h and delta_kernel.h over vec_avx2.h.
#include "cpu/conv_kernel.h"
#include "cpu/delta_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

void convolve(const ConvTile& tile) { run_convolve<Vec>(tile); }
void delta_tokens(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_tokens(); }
void delta_chunks(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_chunks(); }

}  // namespace octavo::cpu::avx2
