#include <cmath>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool fresh = false;  // nothing came before
};

Span rows_of(const BatchView& batch, std::int64_t seq) {
  const std::int32_t* query_start = ints(batch.query_start);
  Span span{query_start[seq], query_start[seq + 1]};
  span.fresh = ints(batch.context)[seq] == span.end - span.begin;
  return span;
}

// One sequence. `past` holds a channel's last inputs, oldest first, and is shifted token by token, so that chunks do
// not matter.
void convolve(const ConvUpdateArgs& args, const Span& span, float* state) {
  const std::int64_t channels = args.x.size(1);
  const std::int64_t taps = args.weight.size(1);
  const float* weight = floats(args.weight);
  std::vector<float> row(static_cast<std::size_t>(channels));
  if (span.fresh) std::fill(state, state + channels * (taps - 1), 0.0f);
  for (std::int64_t t = span.begin; t < span.end; ++t) {
    load_row(row_at(args.x, t), args.x.dtype(), channels, row.data());
    for (std::int64_t c = 0; c < channels; ++c) {
      float* past = state + c * (taps - 1);
      const float now = row[static_cast<std::size_t>(c)];
      double sum = static_cast<double>(weight[c * taps + taps - 1]) * now;
      for (std::int64_t j = 0; j + 1 < taps; ++j) sum += static_cast<double>(weight[c * taps + j]) * past[j];
      for (std::int64_t j = 0; j + 2 < taps; ++j) past[j] = past[j + 1];
      if (taps > 1) past[taps - 2] = now;
      row[static_cast<std::size_t>(c)] = static_cast<float>(sum / (1.0 + std::exp(-sum)));
    }
    store_row(row.data(), channels, row_at(args.out, t), args.out.dtype());
  }
}

}  // namespace

void conv_update(ThreadPool& pool, const ConvUpdateArgs& args) {
  const std::int64_t channels = args.x.size(1);
  const std::int64_t taps = args.weight.size(1);
  check(args.weight.size(0) == channels && args.state.size(1) == channels && args.state.size(2) == taps - 1 &&
            args.state.contiguous() && args.out.size(1) == channels,
        "shapes of conv_update");
  const std::int32_t* records = ints(args.records);
  pool.run(args.batch.num_seqs, [&](std::int64_t seq) {
    check(records[seq] >= 0 && records[seq] < args.state.size(0), "a record beyond the states");
    convolve(args, rows_of(args.batch, seq), args.state.data<float>() + records[seq] * channels * (taps - 1));
  });
}

}  // namespace octavo::cpu::plain
