// The linear layer on AVX2: linear_kernel.h and turned_linear_kernel.h over vec_avx2.h.
#include "cpu/linear_kernel.h"
#include "cpu/turned_linear_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

void linear_tile(const LinearTile& tile) { run_linear_tile<Vec>(tile); }
void turned_linear_tile(const LinearTile& tile) { run_turned_linear_tile<Vec>(tile); }
void widen(const std::uint16_t* from, std::int64_t n, float* to) { run_widen<Vec>(from, n, to); }

}  // namespace octavo::cpu::avx2
