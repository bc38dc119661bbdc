#include "cuda/sm90/rows.cuh"

namespace octavo::cuda::sm90 {

namespace {
using enum KvElem;
const KernelRow kRows[] = {
    decode_row<64, bf16, bf16>("sm90.decode.d64.bf16"),
    decode_row<64, e4m3, e4m3>("sm90.decode.d64.e4m3"),
    decode_row<64, int8, e4m3>("sm90.decode.d64.int8_e4m3"),
    decode_row<128, bf16, bf16>("sm90.decode.d128.bf16"),
    decode_row<128, e4m3, e4m3>("sm90.decode.d128.e4m3"),
    decode_row<128, int8, e4m3>("sm90.decode.d128.int8_e4m3"),
    decode_row<256, bf16, bf16>("sm90.decode.d256.bf16"),
    decode_row<256, e4m3, e4m3>("sm90.decode.d256.e4m3"),
    prefill_row<64, bf16, bf16>("sm90.prefill.d64.bf16"),
    prefill_row<64, e4m3, e4m3>("sm90.prefill.d64.e4m3"),
    prefill_row<64, int8, e4m3>("sm90.prefill.d64.int8_e4m3"),
    prefill_row<128, bf16, bf16>("sm90.prefill.d128.bf16"),
    prefill_row<128, e4m3, e4m3>("sm90.prefill.d128.e4m3"),
    prefill_row<128, int8, e4m3>("sm90.prefill.d128.int8_e4m3"),
    prefill_row<256, bf16, bf16>("sm90.prefill.d256.bf16"),
    prefill_row<256, e4m3, e4m3>("sm90.prefill.d256.e4m3"),
};
}  // namespace

std::span<const KernelRow> all_rows() { return kRows; }

}  // namespace octavo::cuda::sm90
