// Work on rows on AVX2: row_kernel.h and head_kernel.h over vec_avx2.h.
#include "cpu/head_kernel.h"
#include "cpu/row_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

const RowKernels kRowKernels{
    .norm = run_norm<Vec>,
    .gate = Gate<Vec>::run,
    .head = HeadKernel<Vec>::run,
    .angles = run_angles<Vec>,
    .encode_e4m3 = RowEncoder<Vec>::e4m3,
    .encode_e5m2 = RowEncoder<Vec>::e5m2,
    .encode_int8 = RowEncoder<Vec>::int8,
    .encode_bf16 = RowEncoder<Vec>::bf16,
    .encode_f32 = RowEncoder<Vec>::f32,
    .amax = RowEncoder<Vec>::amax,
};

}  // namespace octavo::cpu::avx2
