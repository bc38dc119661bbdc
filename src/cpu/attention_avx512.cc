// Attention on AVX512: attention_kernel.h over vec_avx512.h.
#include "cpu/attention_kernel.h"
#include "cpu/vec_avx512.h"

namespace octavo::cpu::avx512 {

void attention_unit(const AttentionUnit& unit) { run_attention_unit<Vec>(unit); }
void merge_attention(const AttentionUnit& unit) { run_merge_attention<Vec>(unit); }

}  // namespace octavo::cpu::avx512
