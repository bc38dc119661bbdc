// conv_update, delta_gates and delta_rule: whole sequences against the formulas in double, states carried over chunks,
// records apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct Piece {
  std::int32_t record = 0;
  std::int32_t begin = 0;  // of the sequence
  std::int32_t count = 0;
};

BatchView batch_of(Arena& arena, const std::vector<Piece>& pieces) {
  std::vector<std::int32_t> starts = {0}, contexts;
  BatchView batch;
  for (const Piece& piece : pieces) {
    starts.push_back(starts.back() + piece.count);
    contexts.push_back(piece.begin + piece.count);
    batch.max_query = std::max(batch.max_query, piece.count);
    batch.max_context = std::max(batch.max_context, contexts.back());
    if (piece.count == 1 && batch.num_decodes + 2 == std::ssize(starts)) ++batch.num_decodes;
  }
  batch.num_seqs = static_cast<std::int32_t>(pieces.size());
  batch.num_tokens = starts.back();
  batch.query_start = arena.ints(starts, {batch.num_seqs + 1});
  batch.context = arena.ints(contexts, {batch.num_seqs});
  return batch;
}

Tensor records_of(Arena& arena, const std::vector<Piece>& pieces) {
  std::vector<std::int32_t> records;
  for (const Piece& piece : pieces) records.push_back(piece.record);
  return arena.ints(records, {static_cast<std::int64_t>(pieces.size())});
}

// Rows [begin, begin + count) of each piece's sequence, one after the other.
std::vector<float> rows_of(const std::vector<std::vector<float>>& sequences, const std::vector<Piece>& pieces,
                           std::int64_t n) {
  std::vector<float> rows;
  for (const Piece& piece : pieces) {
    const std::vector<float>& all = sequences[static_cast<std::size_t>(piece.record)];
    rows.insert(rows.end(), all.begin() + piece.begin * n, all.begin() + (piece.begin + piece.count) * n);
  }
  return rows;
}

std::vector<double> rows_of(const std::vector<std::vector<double>>& sequences, const std::vector<Piece>& pieces,
                            std::int64_t n) {
  std::vector<double> rows;
  for (const Piece& piece : pieces) {
    const std::vector<double>& all = sequences[static_cast<std::size_t>(piece.record)];
    rows.insert(rows.end(), all.begin() + piece.begin * n, all.begin() + (piece.begin + piece.count) * n);
  }
  return rows;
}

// Three sequences of 30 tokens in three steps: whole ones, a first token alone, and single tokens in between.
const std::vector<std::vector<Piece>> kSteps = {
    {{2, 0, 1}, {0, 0, 30}, {1, 0, 12}},
    {{1, 12, 1}, {2, 1, 2}},
    {{1, 13, 17}, {2, 3, 27}},
};

constexpr std::int64_t kChannels = 37;

// One sequence, x [tokens, kChannels].
std::vector<double> convolved(const std::vector<float>& x, const std::vector<float>& weight, std::int64_t taps) {
  std::vector<double> rows;
  for (std::int64_t t = 0; t < std::ssize(x) / kChannels; ++t)
    for (std::int64_t c = 0; c < kChannels; ++c) {
      double sum = 0.0;
      for (std::int64_t j = std::max<std::int64_t>(0, taps - 1 - t); j < taps; ++j)
        sum += static_cast<double>(weight[static_cast<std::size_t>(c * taps + j)]) *
               x[static_cast<std::size_t>((t - taps + 1 + j) * kChannels + c)];
      rows.push_back(sum / (1.0 + std::exp(-sum)));
    }
  return rows;
}

// Chunks that several threads share, and such as are shorter than the past.
TEST(ConvUpdate, ChunksOfAnySizeFollowTheFormula) {
  constexpr std::int32_t kTokens = 100;
  for (const std::int64_t taps : {4, 3}) {
    Random random(16);
    const std::vector<float> weight = random.normals(kChannels * taps);
    const std::vector<std::vector<float>> x = {random.normals(kTokens * kChannels)};
    const std::vector<double> want = convolved(x[0], weight, taps);
    for_each_path([&](Path& path) {
      for (const std::int32_t size : {1, 2, 33, 64, kTokens}) {
        SCOPED_TRACE("in chunks of " + std::to_string(size));
        Arena arena(path.backend->device());
        const Tensor state = arena.blank({1, kChannels, taps - 1});
        std::vector<float> rows;
        for (std::int32_t begin = 0; begin < kTokens; begin += size) {
          const std::vector<Piece> piece = {{0, begin, std::min(size, kTokens - begin)}};
          const BatchView batch = batch_of(arena, piece);
          const Tensor out = arena.blank({batch.num_tokens, kChannels});
          path.backend->ops().conv_update(
              {.x = arena.floats(rows_of(x, piece, kChannels), {batch.num_tokens, kChannels}),
               .weight = arena.floats(weight, {kChannels, taps}),
               .state = state,
               .records = records_of(arena, piece),
               .batch = batch,
               .out = out});
          const std::vector<float> chunk = arena.read(out);
          rows.insert(rows.end(), chunk.begin(), chunk.end());
        }
        expect_close("conv_update", rows, want, kChannels, 3e-6);
      }
    });
  }
}

TEST(ConvUpdate, CarriesItsPastFromStepToStep) {
  constexpr std::int64_t kTokens = 30;
  for (const std::int64_t taps : {4, 2}) {
    Random random(13);
    const std::vector<float> weight = random.normals(kChannels * taps);
    std::vector<std::vector<float>> x;
    std::vector<std::vector<double>> want;
    for (int s = 0; s < 3; ++s) {
      x.push_back(random.normals(kTokens * kChannels));
      want.push_back(convolved(x.back(), weight, taps));
    }
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor state = arena.blank({3, kChannels, taps - 1});
      const Tensor weights = arena.floats(weight, {kChannels, taps});
      for (const std::vector<Piece>& step : kSteps) {
        const BatchView batch = batch_of(arena, step);
        const Tensor out = arena.blank({batch.num_tokens, kChannels});
        path.backend->ops().conv_update({.x = arena.floats(rows_of(x, step, kChannels), {batch.num_tokens, kChannels}),
                                         .weight = weights,
                                         .state = state,
                                         .records = records_of(arena, step),
                                         .batch = batch,
                                         .out = out});
        expect_close("conv_update", arena.read(out), rows_of(want, step, kChannels), kChannels, 3e-6);
      }
    });
  }
}

// Large gates too: neither exp may overflow.
TEST(DeltaGates, FollowTheFormula) {
  constexpr std::int64_t kTokens = 19, kHeads = 6;
  Random random(15);
  std::vector<float> b_a = random.normals(kTokens * 2 * kHeads);
  b_a[0] = 200, b_a[1] = -200, b_a[kHeads] = 200, b_a[kHeads + 1] = -200;
  const std::vector<float> a_log = random.normals(kHeads);
  const std::vector<float> dt_bias = random.normals(kHeads);
  std::vector<double> want;
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t i = 0; i < 2 * kHeads; ++i) {
      const double x = b_a[static_cast<std::size_t>(t * 2 * kHeads + i)];
      const auto head = static_cast<std::size_t>(i % kHeads);
      const double step = x + dt_bias[head];
      const double softplus = step > 30 ? step : std::log(1.0 + std::exp(step));
      want.push_back(i < kHeads ? 1.0 / (1.0 + std::exp(-x)) : -std::exp(static_cast<double>(a_log[head])) * softplus);
    }
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor both = arena.floats(b_a, {kTokens, 2 * kHeads});
    const Tensor b = both.columns(0, kHeads);
    const Tensor a = both.columns(kHeads, kHeads);
    path.backend->ops().delta_gates({.a = a,
                                     .b = b,
                                     .a_log = arena.floats(a_log, {kHeads}),
                                     .dt_bias = arena.floats(dt_bias, {kHeads}),
                                     .decay = a,
                                     .beta = b});
    expect_close("delta_gates", arena.read(both), want, 2 * kHeads, 3e-6);
  });
}

struct DeltaShape {
  std::int64_t tokens = 30;  // of each sequence
  std::int64_t key_heads = 2;
  std::int64_t value_heads = 4;
  std::int64_t key_width = 24;
  std::int64_t value_width = 40;
  DType dtype = DType::f32;  // of q, k, v and the results

  std::int64_t keys() const { return key_heads * key_width; }
  std::int64_t values() const { return value_heads * value_width; }
};

struct DeltaInputs {
  DeltaShape shape;
  std::vector<std::vector<float>> q, k, v, decay, beta;
  std::vector<std::vector<double>> want, state;  // state: after the last token
};

std::vector<double> unit(const float* x, std::int64_t width, double scale) {
  double squares = 1e-6;
  for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
  std::vector<double> row;
  for (std::int64_t i = 0; i < width; ++i) row.push_back(x[i] / std::sqrt(squares) * scale);
  return row;
}

void append_delta(DeltaInputs& in, std::size_t s, std::int64_t t) {
  const DeltaShape& shape = in.shape;
  for (std::int64_t h = 0; h < shape.value_heads; ++h) {
    const std::int64_t key_row = t * shape.keys() + h / (shape.value_heads / shape.key_heads) * shape.key_width;
    const double root = std::sqrt(static_cast<double>(shape.key_width));
    const std::vector<double> q = unit(in.q[s].data() + key_row, shape.key_width, 1.0 / root);
    const std::vector<double> k = unit(in.k[s].data() + key_row, shape.key_width, 1.0);
    const auto gate = static_cast<std::size_t>(t * shape.value_heads + h);
    const double alpha = std::exp(static_cast<double>(in.decay[s][gate]));
    double* matrix = in.state[s].data() + h * shape.key_width * shape.value_width;
    for (std::int64_t c = 0; c < shape.value_width; ++c) {
      double read = 0.0;
      for (std::int64_t r = 0; r < shape.key_width; ++r)
        read += k[static_cast<std::size_t>(r)] * (matrix[r * shape.value_width + c] *= alpha);
      const double v = in.v[s][static_cast<std::size_t>(t * shape.values() + h * shape.value_width + c)];
      const double delta = in.beta[s][gate] * (v - read);
      double sum = 0.0;
      for (std::int64_t r = 0; r < shape.key_width; ++r)
        sum += q[static_cast<std::size_t>(r)] *
               (matrix[r * shape.value_width + c] += k[static_cast<std::size_t>(r)] * delta);
      in.want[s].push_back(sum);
    }
  }
}

// Some tokens forget everything, some nothing; some learn nothing.
DeltaInputs make_delta(const DeltaShape& shape, int num_seqs) {
  Random random(14);
  DeltaInputs in{.shape = shape, .q = {}, .k = {}, .v = {}, .decay = {}, .beta = {}, .want = {}, .state = {}};
  for (int s = 0; s < num_seqs; ++s) {
    in.q.push_back(rounded(random.normals(shape.tokens * shape.keys()), shape.dtype));
    in.k.push_back(rounded(random.normals(shape.tokens * shape.keys()), shape.dtype));
    in.v.push_back(rounded(random.normals(shape.tokens * shape.values()), shape.dtype));
    std::vector<float>& decay = in.decay.emplace_back();
    std::vector<float>& beta = in.beta.emplace_back();
    for (std::int64_t i = 0; i < shape.tokens * shape.value_heads; ++i) {
      decay.push_back(-static_cast<float>(std::exp(random.normal() - 2.0)));
      beta.push_back(static_cast<float>(random.uniform()));
      if (i % 37 == 5) decay.back() = -2000.0f;
      if (i % 41 == 6) decay.back() = -0.0f;
      if (i % 29 == 7) beta.back() = 0.0f;
    }
    in.state.emplace_back(static_cast<std::size_t>(shape.value_heads * shape.key_width * shape.value_width), 0.0);
    in.want.emplace_back();
    for (std::int64_t t = 0; t < shape.tokens; ++t) append_delta(in, static_cast<std::size_t>(s), t);
  }
  return in;
}

Tensor delta_states(Arena& arena, const DeltaInputs& in) {
  return arena.blank({std::ssize(in.q), in.shape.value_heads, in.shape.key_width, in.shape.value_width});
}

std::vector<float> delta_on(Path& path, Arena& arena, const DeltaInputs& in, const std::vector<Piece>& step,
                            const Tensor& state) {
  const BatchView batch = batch_of(arena, step);
  const DeltaShape& shape = in.shape;
  const std::int64_t n = batch.num_tokens;
  const Tensor out = arena.blank({n, shape.value_heads, shape.value_width}, shape.dtype);
  path.backend->ops().delta_rule(
      {.q = arena.floats(rows_of(in.q, step, shape.keys()), {n, shape.key_heads, shape.key_width}, shape.dtype),
       .k = arena.floats(rows_of(in.k, step, shape.keys()), {n, shape.key_heads, shape.key_width}, shape.dtype),
       .v = arena.floats(rows_of(in.v, step, shape.values()), {n, shape.value_heads, shape.value_width}, shape.dtype),
       .decay = arena.floats(rows_of(in.decay, step, shape.value_heads), {n, shape.value_heads}),
       .beta = arena.floats(rows_of(in.beta, step, shape.value_heads), {n, shape.value_heads}),
       .state = state,
       .records = records_of(arena, step),
       .batch = batch,
       .out = out});
  return arena.read(out);
}

// A head that has just forgotten everything may give next to nothing: errors are told relative to all heads of a token.
TEST(DeltaRule, CarriesItsStateFromStepToStep) {
  const DeltaInputs in = make_delta({}, 3);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor state = delta_states(arena, in);
    for (const std::vector<Piece>& step : kSteps)
      expect_close("delta_rule", delta_on(path, arena, in, step, state), rows_of(in.want, step, in.shape.values()),
                   in.shape.values(), 2e-5);
  });
}

// Whatever form a path takes for so many tokens, the numbers and the state that it leaves are those of the formula.
TEST(DeltaRule, ChunksOfAnySizeFollowTheFormula) {
  for (const DeltaShape& shape :
       {DeltaShape{.tokens = 150}, DeltaShape{150, 1, 3, 64, 64}, DeltaShape{70, 1, 1, 33, 96},
        DeltaShape{40, 1, 2, 136, 24}, DeltaShape{167, 1, 3, 128, 128, DType::bf16}}) {
    const DeltaInputs in = make_delta(shape, 1);
    const auto tokens = static_cast<std::int32_t>(shape.tokens);
    for_each_path([&](Path& path) {
      for (const std::int32_t size : {1, 7, 8, 64, 101, tokens}) {
        SCOPED_TRACE("in chunks of " + std::to_string(size));
        Arena arena(path.backend->device());
        const Tensor state = delta_states(arena, in);
        std::vector<float> rows;
        for (std::int32_t begin = 0; begin < tokens; begin += size) {
          const auto chunk = delta_on(path, arena, in, {{0, begin, std::min(size, tokens - begin)}}, state);
          rows.insert(rows.end(), chunk.begin(), chunk.end());
        }
        expect_close("delta_rule", rows, in.want[0], shape.values(), 2e-5, shape.dtype);
        expect_close("its state", arena.read(state), in.state[0], shape.value_width, 2e-5);
      }
    });
  }
}

// Prompts of many lengths beside decodes, in heads as wide as those of Qwen3.5; then what they left behind goes on.
TEST(DeltaRule, PromptsOfAStepKeepApart) {
  const DeltaInputs in = make_delta({140, 2, 4, 128, 128, DType::bf16}, 5);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor state = delta_states(arena, in);
    for (const std::vector<Piece>& step : std::vector<std::vector<Piece>>{
             {{3, 0, 1}, {1, 0, 1}, {4, 0, 32}, {0, 0, 97}, {2, 0, 5}},
             {{0, 97, 1}, {1, 1, 65}, {3, 1, 64}, {4, 32, 3}, {2, 5, 100}},
             {{0, 98, 42}, {1, 66, 74}, {2, 105, 35}, {3, 65, 75}, {4, 35, 105}},
         })
      expect_close("delta_rule", delta_on(path, arena, in, step, state), rows_of(in.want, step, in.shape.values()),
                   in.shape.values(), 2e-5, DType::bf16);
    std::vector<double> states;
    for (const std::vector<double>& one : in.state) states.insert(states.end(), one.begin(), one.end());
    expect_close("its states", arena.read(state), states, in.shape.value_width, 2e-5);
  });
}

TEST(DeltaRule, ChunksDoNotChangeBits) {
  for (const DeltaShape& shape : {DeltaShape{.tokens = 90}, DeltaShape{90, 1, 2, 128, 64, DType::bf16}}) {
    const DeltaInputs in = make_delta(shape, 2);
    for_each_path([&](Path& path) {
      if (!path.deterministic) return;
      Arena arena(path.backend->device());
      const Tensor state = delta_states(arena, in);
      const std::vector<float> whole = delta_on(path, arena, in, {{1, 0, 90}}, state);
      std::vector<float> chunked;
      for (const Piece& piece : {Piece{1, 0, 7}, {1, 7, 1}, {1, 8, 50}, {1, 58, 32}}) {
        const std::vector<float> rows = delta_on(path, arena, in, {piece}, state);
        chunked.insert(chunked.end(), rows.begin(), rows.end());
      }
      EXPECT_EQ(chunked, whole);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
