// Attention on AVX2: attention_kernel.h over vec_avx2.h.
#include "cpu/attention_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

void attention_unit(const AttentionUnit& unit) { run_attention_unit<Vec>(unit); }
void merge_attention(const AttentionUnit& unit) { run_merge_attention<Vec>(unit); }

}  // namespace octavo::cpu::avx2
