// Peaks of AVX-512: peak_kernel.h over vec_avx512.h.
#include "cpu/peak_kernel.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

const Peaks kPeaks = PeakKernel<Vec>::kPeaks;

}  // namespace octavo::cpu::avx512
