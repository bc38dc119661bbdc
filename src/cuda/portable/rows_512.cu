#include "cuda/portable/wide_rows.cuh"

namespace octavo::cuda::portable {

namespace {
using enum KvElem;
const KernelRow kRows[] = {
    wide_decode_row<512, bf16, bf16>("portable.decode.d512.bf16"),
    wide_decode_row<512, bf16, e4m3>("portable.decode.d512.bf16_e4m3"),
    wide_decode_row<512, e4m3, e4m3>("portable.decode.d512.e4m3"),
    wide_decode_row<512, e5m2, e5m2>("portable.decode.d512.e5m2"),
    wide_decode_row<512, int8, e4m3>("portable.decode.d512.int8_e4m3"),
    wide_decode_row<512, int8, int8>("portable.decode.d512.int8"),
    wide_prefill_row<512, bf16, bf16>("portable.prefill.d512.bf16"),
    wide_prefill_row<512, bf16, e4m3>("portable.prefill.d512.bf16_e4m3"),
    wide_prefill_row<512, e4m3, e4m3>("portable.prefill.d512.e4m3"),
    wide_prefill_row<512, e5m2, e5m2>("portable.prefill.d512.e5m2"),
    wide_prefill_row<512, int8, e4m3>("portable.prefill.d512.int8_e4m3"),
    wide_prefill_row<512, int8, int8>("portable.prefill.d512.int8"),
};
}  // namespace

std::span<const KernelRow> rows_of_512() { return kRows; }

}  // namespace octavo::cuda::portable
