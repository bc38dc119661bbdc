// Peaks of AVX2: peak_kernel.h over vec_avx2.h.
#include "cpu/peak_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

const Peaks kPeaks = PeakKernel<Vec>::kPeaks;

}  // namespace octavo::cpu::avx2
