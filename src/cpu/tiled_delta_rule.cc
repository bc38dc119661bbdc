#include "cpu/tiled_delta_rule.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "cpu/delta_heads.h"
#include "cpu/delta_tile.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

// Below so many tokens the recurrent form takes less time.
constexpr std::int64_t kLeastChunk = 8;

using DeltaTileFunction = void (*)(const DeltaTile&);

struct FreeMemory {
  void operator()(float* memory) const { std::free(memory); }
};

void run_tile(const DeltaRuleArgs& args, const DeltaHead& head, DeltaTileFunction function) {
  DeltaTile tile;
  tile.q = token_rows(args.q, row_at(args.q, head.begin, head.key_head));
  tile.k = token_rows(args.k, row_at(args.k, head.begin, head.key_head));
  tile.v = token_rows(args.v, row_at(args.v, head.begin, head.head));
  tile.out = token_rows(args.out, row_at(args.out, head.begin, head.head));
  tile.decay = reinterpret_cast<const float*>(row_at(args.decay, head.begin)) + head.head;
  tile.decay_stride = args.decay.stride(0);
  tile.beta = reinterpret_cast<const float*>(row_at(args.beta, head.begin)) + head.head;
  tile.beta_stride = args.beta.stride(0);
  tile.tokens = head.end - head.begin;
  tile.key_width = args.k.size(2);
  tile.value_width = args.v.size(2);
  tile.state = head.state;
  const auto bytes =
      sizeof(float) * static_cast<std::size_t>(delta_scratch(tile.key_width, tile.value_width, tile.tokens));
  const std::unique_ptr<float, FreeMemory> scratch(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  check(scratch != nullptr, "no memory for the delta rule");
  tile.scratch = scratch.get();
  function(tile);
}

template <DeltaTileFunction kTokens, DeltaTileFunction kChunks>
void run_delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic) {
  if (!is_activation(args.q) || !is_activation(args.k) || !is_activation(args.v) || !is_activation(args.out))
    return plain::delta_rule(pool, args, deterministic);
  const auto recurrent = [](const DeltaRuleArgs& call, const DeltaHead& head) { run_tile(call, head, kTokens); };
  const auto in_chunks = [](const DeltaRuleArgs& call, const DeltaHead& head) {
    run_tile(call, head, head.end - head.begin < kLeastChunk ? kTokens : kChunks);
  };
  if (deterministic)
    each_delta_head(pool, args, recurrent);
  else
    each_delta_head(pool, args, in_chunks);
}

}  // namespace

std::int64_t delta_scratch(std::int64_t key_width, std::int64_t value_width, std::int64_t tokens) {
  const auto padded = [](std::int64_t n) { return (n + kDeltaPad - 1) / kDeltaPad * kDeltaPad; };
  const std::int64_t rows = std::min<std::int64_t>(tokens, kDeltaChunk);
  const std::int64_t values = padded(value_width);
  // The state where its rows are not whole registers; keys and queries; news and results; keys turned; scores.
  return key_width * values + 2 * rows * padded(key_width) + 2 * rows * values + key_width * kDeltaChunk +
         2 * rows * kDeltaChunk;
}

void avx512::delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic) {
  run_delta_rule<avx512::delta_tokens, avx512::delta_chunks>(pool, args, deterministic);
}
void avx2::delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic) {
  run_delta_rule<avx2::delta_tokens, avx2::delta_chunks>(pool, args, deterministic);
}

}  // namespace octavo::cpu
