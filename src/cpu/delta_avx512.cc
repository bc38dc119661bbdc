// Recurrent layers on AVX512: conv_kernel.h and delta_kernel.h over vec_avx512.h.
#include "cpu/conv_kernel.h"
#include "cpu/delta_kernel.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

void convolve(const ConvTile& tile) { run_convolve<Vec>(tile); }
void delta_tokens(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_tokens(); }
void delta_chunks(const DeltaTile& tile) { DeltaKernel<Vec>(tile).run_chunks(); }

}  // namespace octavo::cpu::avx512
