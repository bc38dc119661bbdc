// DeltaTile: the gated delta rule of one value head over some tokens of one sequence, for the vector paths. Plain data
// and function declarations only, so that files of any instruction set may include it.
//
// delta_tokens: token after token; the same bits however the tokens are cut into tiles. delta_chunks: some tokens at a
// time as products of matrices.
#pragma once

#include <cstdint>

#include "cpu/row_tasks.h"

namespace octavo::cpu {

constexpr int kDeltaChunk = 64;  // tokens at a time
// Widths of buffers are rounded up to this: whole registers of every instruction set.
constexpr int kDeltaPad = 32;
static_assert(kDeltaChunk % kDeltaPad == 0);

struct DeltaTile {
  TokenRows q;  // [tokens, key_width]
  TokenRows k;
  TokenRows v;  // [tokens, value_width]
  TokenRows out;
  const float* decay = nullptr;  // [tokens], g
  std::int64_t decay_stride = 0;
  const float* beta = nullptr;  // [tokens]
  std::int64_t beta_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t key_width = 0;
  std::int64_t value_width = 0;
  float* state = nullptr;    // [key_width, value_width], updated
  float* scratch = nullptr;  // delta_scratch() numbers, at a multiple of 64 bytes
};

// Numbers of scratch memory that a tile of these widths and so many tokens needs.
std::int64_t delta_scratch(std::int64_t key_width, std::int64_t value_width, std::int64_t tokens);

namespace avx512 {
void delta_tokens(const DeltaTile& tile);
void delta_chunks(const DeltaTile& tile);
}  // namespace avx512
namespace avx2 {
void delta_tokens(const DeltaTile& tile);
void delta_chunks(const DeltaTile& tile);
}  // namespace avx2

}  // namespace octavo::cpu
