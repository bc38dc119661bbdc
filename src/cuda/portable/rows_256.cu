#include "cuda/portable/rows.cuh"

namespace octavo::cuda::portable {

namespace {
using enum KvElem;
const KernelRow kRows[] = {
    decode_row<256, bf16, bf16>("portable.decode.d256.bf16"),
    decode_row<256, bf16, e4m3>("portable.decode.d256.bf16_e4m3"),
    decode_row<256, e4m3, e4m3>("portable.decode.d256.e4m3"),
    decode_row<256, e5m2, e5m2>("portable.decode.d256.e5m2"),
    decode_row<256, int8, e4m3>("portable.decode.d256.int8_e4m3"),
    decode_row<256, int8, int8>("portable.decode.d256.int8"),
    prefill_row<256, bf16, bf16>("portable.prefill.d256.bf16"),
    prefill_row<256, bf16, e4m3>("portable.prefill.d256.bf16_e4m3"),
    prefill_row<256, e4m3, e4m3>("portable.prefill.d256.e4m3"),
    prefill_row<256, e5m2, e5m2>("portable.prefill.d256.e5m2"),
    prefill_row<256, int8, e4m3>("portable.prefill.d256.int8_e4m3"),
    prefill_row<256, int8, int8>("portable.prefill.d256.int8"),
};
}  // namespace

std::span<const KernelRow> rows_of_256() { return kRows; }

}  // namespace octavo::cuda::portable
