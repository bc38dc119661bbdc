#include "cuda/portable/rows.cuh"

namespace octavo::cuda::portable {

namespace {
using enum KvElem;
const KernelRow kRows[] = {
    decode_row<64, bf16, bf16>("portable.decode.d64.bf16"),
    decode_row<64, bf16, e4m3>("portable.decode.d64.bf16_e4m3"),
    decode_row<64, e4m3, e4m3>("portable.decode.d64.e4m3"),
    decode_row<64, e5m2, e5m2>("portable.decode.d64.e5m2"),
    decode_row<64, int8, e4m3>("portable.decode.d64.int8_e4m3"),
    decode_row<64, int8, int8>("portable.decode.d64.int8"),
    prefill_row<64, bf16, bf16>("portable.prefill.d64.bf16"),
    prefill_row<64, bf16, e4m3>("portable.prefill.d64.bf16_e4m3"),
    prefill_row<64, e4m3, e4m3>("portable.prefill.d64.e4m3"),
    prefill_row<64, e5m2, e5m2>("portable.prefill.d64.e5m2"),
    prefill_row<64, int8, e4m3>("portable.prefill.d64.int8_e4m3"),
    prefill_row<64, int8, int8>("portable.prefill.d64.int8"),
};
}  // namespace

std::span<const KernelRow> rows_of_64() { return kRows; }

}  // namespace octavo::cuda::portable
