// What the sampling verbs take: one plain row of settings a sampled position, so that a whole batch is one call.
//
// Order of the steps, as vLLM's: logit bias (min_tokens' ban too), penalties (repetition, then frequency and presence),
// temperature, min-p, top-k, top-p, draw. temperature 0 is the argmax. Ties go to the lowest id, in top-k too; NaN
// counts as -inf; if every token is banned, the bans are void; a row without one number above -inf gives -1. The draw
// walks the kept tokens by id with a number in [0, 1) made from (seed, position) alone, so a seeded request repeats
// whatever else is in the batch.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace octavo {

struct SampleRow {
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::int32_t top_k = 0;                     // 0: all
  float repetition_penalty = 1.0f;            // logits of seen tokens (prompt and output): / r if > 0, else * r
  float frequency_penalty = 0.0f;             // minus f * count in the output
  float presence_penalty = 0.0f;              // minus p if in the output
  std::int32_t bias_begin = 0, bias_end = 0;  // range of this row in bias_ids / bias_values; -inf bans a token
  bool only_biased = false;                   // bans every token that the range does not name
  std::int32_t seen_begin = 0, seen_end = 0;  // range of this row in seen_ids / seen_counts
  std::uint64_t seed = 0;
  std::uint64_t position = 0;  // index of the drawn token in its sequence
};

struct SampleArgs {
  Tensor logits;                    // f32 [rows, vocab], not changed
  const SampleRow* rows = nullptr;  // [rows], device memory
  Tensor bias_ids;                  // i32 [n] or empty
  Tensor bias_values;               // f32 [n]
  Tensor seen_ids;                  // i32 [m] or empty; each id once a row
  Tensor seen_counts;               // i32 [m]: times in the output; 0: in the prompt only
  Tensor changed;                   // f32 [rows, vocab]: room for what bias and penalties change; empty without them
  Tensor out;                       // i32 [rows]
};

// log softmax of unmodified logits: of the tokens in `ids`, their rank (1 = best; ties count as better only for lower
// ids), and the best `top` tokens in order.
struct LogProbsArgs {
  Tensor logits;      // f32 [rows, vocab]
  Tensor ids;         // i32 [rows]
  Tensor chosen;      // f32 [rows] out
  Tensor rank;        // i32 [rows] out
  Tensor top_ids;     // i32 [rows, top] out, or empty
  Tensor top_values;  // f32 [rows, top] out
};

// splitmix64 of seed and position: the same on every wing.
constexpr float uniform_from(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15ull * (position + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-24f;
}

}  // namespace octavo
