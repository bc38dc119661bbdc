#include "cuda/portable/wide_rows.cuh"

namespace octavo::cuda::portable {

namespace {
using enum KvElem;
const KernelRow kRows[] = {
    wide_decode_row<256, bf16, bf16>("portable.decode.d256.wide.bf16"),
    wide_decode_row<256, bf16, e4m3>("portable.decode.d256.wide.bf16_e4m3"),
    wide_decode_row<256, e4m3, e4m3>("portable.decode.d256.wide.e4m3"),
    wide_decode_row<256, e5m2, e5m2>("portable.decode.d256.wide.e5m2"),
    wide_decode_row<256, int8, e4m3>("portable.decode.d256.wide.int8_e4m3"),
    wide_decode_row<256, int8, int8>("portable.decode.d256.wide.int8"),
    wide_prefill_row<256, bf16, bf16>("portable.prefill.d256.wide.bf16"),
    wide_prefill_row<256, bf16, e4m3>("portable.prefill.d256.wide.bf16_e4m3"),
    wide_prefill_row<256, e4m3, e4m3>("portable.prefill.d256.wide.e4m3"),
    wide_prefill_row<256, e5m2, e5m2>("portable.prefill.d256.wide.e5m2"),
    wide_prefill_row<256, int8, e4m3>("portable.prefill.d256.wide.int8_e4m3"),
    wide_prefill_row<256, int8, int8>("portable.prefill.d256.wide.int8"),
};
}  // namespace

std::span<const KernelRow> wide_rows_of_256() { return kRows; }

}  // namespace octavo::cuda::portable
