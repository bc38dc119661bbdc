// Attention on AVX2: attention_kernel.h over vec_avx2.h.
#include "cpu/attention_kernel.h"
#include "cpu/vec_avx2.h"

namespace octavo::cpu::avx2 {

void attention_unit(const AttentionUnit& unit) { run_attention_unit<Vec>(unit); }
void merge_attention(const AttentionUnit& unit) { run_merge_attention<Vec>(unit); }
void unpack_latents(const AttentionUnit& unit, std::int64_t start, int count, float* latents,
                    std::int64_t latent_stride, float* ropes) {
  run_unpack_latents<Vec>(unit, start, count, latents, latent_stride, ropes);
}
void turn_keys(const float* rows, std::int64_t stride, int width, float* block) {
  turn_block<Vec>(rows, stride, width, block);
}

}  // namespace octavo::cpu::avx2
