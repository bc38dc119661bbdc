// attention, from kv_write to the result, against a softmax in two passes in double over rows worked out in
// kv_reference. Every batch is ragged: decodes and chunks at and around page edges. Slots that hold no visible token
// are poison.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kv/codec.h"
#include "tests/conformance/cache.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct Sequence {
  std::int32_t context = 0;
  std::int32_t length = 1;  // query rows, the last of the context
};

struct Case {
  KvElem key = KvElem::bf16;
  KvElem value = KvElem::bf16;
  bool rotation = false;
  bool per_head = true;
  int width = 64;
  int value_width = 64;
  int kv_heads = 2;
  int group = 2;
  int page_size = 16;
  int window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  DType compute = DType::f32;
  std::vector<Sequence> sequences = {};
};

std::string describe(const Case& c) {
  return std::string(name_of(c.key)) + ":" + std::string(name_of(c.value)) + (c.rotation ? " rotated" : "") +
         " width " + std::to_string(c.width) + "/" + std::to_string(c.value_width) + " heads " +
         std::to_string(c.kv_heads) + "x" + std::to_string(c.group) + " pages of " + std::to_string(c.page_size) +
         " window " + std::to_string(c.window) + " cap " + std::to_string(c.soft_cap) + (c.sinks ? " sinks" : "") +
         (c.compute == DType::bf16 ? " bf16" : " f32");
}

// Lengths at and around page edges; chunks that begin a sequence, cross a page, and end in the middle of one.
std::vector<Sequence> ragged(int ps) {
  return {{1, 1},           {ps - 1, 1},     {ps, 1}, {ps + 1, 1}, {2 * ps + 3, 1},
          {ps + 2, ps + 2}, {2 * ps + 1, 5}, {ps, 3}, {1, 1}};
}

KvGrain grain_of(KvElem elem, bool per_head) {
  if (elem == KvElem::int8) return KvGrain::token_head;
  return !is_8bit(elem) ? KvGrain::none : per_head ? KvGrain::head : KvGrain::tensor;
}

// The numbers of a case, the same for every path.
struct Numbers {
  KvFormat format;
  std::vector<float> key_scales, value_scales;  // far from 1, K and V apart, by head where the grain allows
  std::vector<std::vector<float>> keys, values,
      queries;  // by sequence: [context, heads, width], [length, q_heads, width]
  std::vector<float> sinks;
  float scale = 0.0f;
};

Numbers make_numbers(const Case& c, std::uint64_t seed) {
  Random random(seed);
  Numbers n;
  const KvTransform transform = c.rotation ? KvTransform::hadamard : KvTransform::none;
  n.format.num_segments = 2;
  n.format.segments[0] = {KvPart::key, c.key, grain_of(c.key, c.per_head), transform, c.kv_heads, c.width};
  n.format.segments[1] = {KvPart::value,     c.value,    grain_of(c.value, c.per_head),
                          KvTransform::none, c.kv_heads, c.value_width};
  for (int h = 0; h < c.kv_heads; ++h) {
    n.key_scales.push_back(0.013f * static_cast<float>(c.per_head ? 1 + 2 * h : 3));
    n.value_scales.push_back(7.0f / static_cast<float>(c.per_head ? 1 + h : 2));
  }
  const auto row = [&](int width, float deviation) { return random.normals(width, deviation); };
  for (const Sequence& s : c.sequences) {
    std::vector<float>& keys = n.keys.emplace_back();
    std::vector<float>& values = n.values.emplace_back();
    for (int i = 0; i < s.context * c.kv_heads; ++i) {
      const auto head = static_cast<std::size_t>(i % c.kv_heads);
      const std::vector<float> key = row(c.width, 60.0f * n.key_scales[head]);
      const std::vector<float> value = row(c.value_width, 60.0f * n.value_scales[head]);
      keys.insert(keys.end(), key.begin(), key.end());
      values.insert(values.end(), value.begin(), value.end());
    }
    keys = rounded(std::move(keys), c.compute);
    values = rounded(std::move(values), c.compute);
    n.queries.push_back(rounded(random.normals(std::int64_t{s.length} * c.kv_heads * c.group * c.width), c.compute));
  }
  if (c.sinks) n.sinks = random.normals(c.kv_heads * c.group, 3.0f);
  n.scale = 1.5f / (60.0f * n.key_scales[0] * std::sqrt(static_cast<float>(c.width)));
  return n;
}

// One head's row as attention must see it, in the basis of the queries.
std::vector<double> seen_row(const KvSegment& segment, float scale, std::vector<float> row) {
  const bool turned = segment.transform == KvTransform::hadamard;
  if (turned) hadamard(row.data(), segment.width);
  const ReferenceRow reference = cached(segment, scale, row);
  return turned ? rotated(reference.values) : reference.values;
}

std::vector<std::vector<double>> seen_rows(const KvSegment& segment, const std::vector<float>& scales,
                                           const std::vector<float>& numbers) {
  std::vector<std::vector<double>> rows;
  for (auto at = numbers.begin(); at != numbers.end(); at += segment.width)
    rows.push_back(seen_row(segment, scales[rows.size() % scales.size()], {at, at + segment.width}));
  return rows;
}

std::vector<double> attention_of(const Case& c, const Numbers& n, const float* q, int q_head, std::int32_t position,
                                 const std::vector<std::vector<double>>& keys,
                                 const std::vector<std::vector<double>>& values) {
  const auto heads = static_cast<std::size_t>(c.kv_heads);
  const auto head = static_cast<std::size_t>(q_head / c.group);
  const std::int32_t first = c.window > 0 ? std::max(0, position - c.window + 1) : 0;
  std::vector<double> scores;
  for (std::int32_t j = first; j <= position; ++j) {
    const std::vector<double>& key = keys[static_cast<std::size_t>(j) * heads + head];
    const double score = n.scale * std::inner_product(key.begin(), key.end(), q, 0.0);
    scores.push_back(c.soft_cap > 0 ? c.soft_cap * std::tanh(score / c.soft_cap) : score);
  }
  double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  if (c.sinks) {
    const double sink = n.sinks[static_cast<std::size_t>(q_head)];
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  std::vector<double> result(static_cast<std::size_t>(c.value_width), 0.0);
  for (std::int32_t j = first; j <= position; ++j) {
    const double p = std::exp(scores[static_cast<std::size_t>(j - first)] - max);
    sum += p;
    const std::vector<double>& value = values[static_cast<std::size_t>(j) * heads + head];
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += p * value[i];
  }
  for (double& x : result) x /= sum;
  return result;
}

std::vector<double> reference(const Case& c, const Numbers& n) {
  std::vector<double> want;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    const auto keys = seen_rows(n.format.segments[0], n.key_scales, n.keys[s]);
    const auto values = seen_rows(n.format.segments[1], n.value_scales, n.values[s]);
    const Sequence& sequence = c.sequences[s];
    for (std::int32_t row = 0; row < sequence.length; ++row)
      for (int head = 0; head < c.kv_heads * c.group; ++head) {
        const float* q = n.queries[s].data() + (row * c.kv_heads * c.group + head) * c.width;
        const std::vector<double> result =
            attention_of(c, n, q, head, sequence.context - sequence.length + row, keys, values);
        want.insert(want.end(), result.begin(), result.end());
      }
  }
  return want;
}

// Pages in a shuffled order, every second one left out. Pages that no query can see any more point to page 0.
std::vector<std::vector<std::int32_t>> make_tables(const Case& c, int& num_pages) {
  std::vector<std::int32_t> free;
  for (const Sequence& s : c.sequences)
    for (int i = 0; i < (s.context + c.page_size - 1) / c.page_size; ++i)
      free.push_back(static_cast<std::int32_t>(free.size() * 2 + 1));
  num_pages = static_cast<int>(free.size()) * 2 + 1;
  Random random(99);
  for (std::size_t i = free.size(); i > 1; --i)
    std::swap(free[i - 1], free[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(i)))]);
  std::vector<std::vector<std::int32_t>> tables;
  for (const Sequence& s : c.sequences) {
    const std::int32_t first_seen = c.window > 0 ? std::max(0, s.context - s.length - c.window + 1) : 0;
    std::vector<std::int32_t>& table = tables.emplace_back();
    for (int i = 0; i < (s.context + c.page_size - 1) / c.page_size; ++i) {
      table.push_back((i + 1) * c.page_size <= first_seen ? 0 : free.back());
      free.pop_back();
    }
  }
  return tables;
}

// Tokens [begin, end) of every sequence given to kv_write in one call.
struct Tokens {
  std::vector<float> q, k, v;
  std::vector<std::int32_t> slots;
};

void append_token(const Case& c, const Numbers& n, const std::vector<std::int32_t>& table, std::size_t s,
                  std::int32_t position, Tokens& tokens) {
  const std::int32_t page = table[static_cast<std::size_t>(position / c.page_size)];
  if (page == 0) return;  // out of every window
  const Sequence& sequence = c.sequences[s];
  const std::int32_t row = std::max(0, position - (sequence.context - sequence.length));
  const int k = c.kv_heads * c.width;
  const int v = c.kv_heads * c.value_width;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, int at, int count) {
    to.insert(to.end(), from.begin() + at, from.begin() + at + count);
  };
  append(tokens.q, n.queries[s], row * k * c.group, k * c.group);
  append(tokens.k, n.keys[s], position * k, k);
  append(tokens.v, n.values[s], position * v, v);
  tokens.slots.push_back(page * c.page_size + position % c.page_size);
}

Query write(const Case& c, Arena& arena, Cache& cache, const Tokens& tokens) {
  const auto count = static_cast<std::int64_t>(tokens.slots.size());
  return cache.write(arena.floats(tokens.q, {count, c.kv_heads * c.group, c.width}, c.compute),
                     arena.floats(tokens.k, {count, c.kv_heads, c.width}, c.compute),
                     arena.floats(tokens.v, {count, c.kv_heads, c.value_width}, c.compute), tokens.slots);
}

std::vector<float> attention_on(Path& path, const Case& c, const Numbers& n) {
  Arena arena(path.backend->device());
  int num_pages = 0;
  const auto tables = make_tables(c, num_pages);
  Cache cache(arena, *path.backend, n.format, c.page_size, num_pages, n.key_scales, n.value_scales);
  cache.poison(c.compute);
  cache.set_table(tables);
  Tokens history;
  Tokens step;
  std::vector<std::int32_t> starts = {0};
  std::vector<std::int32_t> contexts;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    const Sequence& sequence = c.sequences[s];
    for (std::int32_t position = 0; position < sequence.context; ++position)
      append_token(c, n, tables[s], s, position, position < sequence.context - sequence.length ? history : step);
    starts.push_back(starts.back() + sequence.length);
    contexts.push_back(sequence.context);
  }
  if (!history.slots.empty()) write(c, arena, cache, history);
  const Query query = write(c, arena, cache, step);
  AttentionRule rule{.scale = n.scale, .window = c.window, .soft_cap = c.soft_cap, .sinks = {}};
  if (c.sinks) rule.sinks = arena.floats(n.sinks, {c.kv_heads * c.group});
  return arena.read(attend(arena, *path.backend, cache, query, starts, contexts, rule, c.compute));
}

// Processor paths differ from the reference by their sums only. Elsewhere queries and probabilities may be rounded too.
double bound_of(const Path& path, const Case& c) {
  if (path.processor) return 2e-5;
  return is_8bit(c.key) || is_8bit(c.value) ? 6e-2 : 1e-2;
}

AttentionShape shape_of(const Case& c, const KvFormat& format) {
  return {.format = format,
          .q_heads = c.kv_heads * c.group,
          .page_size = c.page_size,
          .window = c.window,
          .soft_cap = c.soft_cap > 0,
          .sinks = c.sinks};
}

// The nearest case that a wing serves which computes in bfloat16 only, with pages of 64.
void run_in_bf16(Path& path, Case c, const std::vector<Sequence>& sequences, std::uint64_t seed) {
  c.compute = DType::bf16;
  c.page_size = 64;
  c.sequences = sequences.empty() ? ragged(c.page_size) : sequences;
  const Numbers n = make_numbers(c, seed);
  if (!path.backend->supports(shape_of(c, n.format))) return;
  expect_close(describe(c), attention_on(path, c, n), reference(c, n), c.value_width, bound_of(path, c), c.compute);
}

void run(Case c, std::uint64_t seed = 1) {
  const std::vector<Sequence> given = c.sequences;
  if (given.empty()) c.sequences = ragged(c.page_size);
  const Numbers n = make_numbers(c, seed);
  const std::vector<double> want = reference(c, n);
  for_each_path([&](Path& path) {
    if (!path.processor) return run_in_bf16(path, c, given, seed);
    EXPECT_TRUE(path.backend->supports(shape_of(c, n.format))) << "the processor serves everything: " << describe(c);
    expect_close(describe(c), attention_on(path, c, n), want, c.value_width, bound_of(path, c), c.compute);
  });
}

const KvElem kElems[] = {KvElem::f32, KvElem::bf16, KvElem::e4m3, KvElem::e5m2, KvElem::int8};
const int kWidths[] = {64, 80, 96, 128, 192, 256};
const int kGroups[] = {1, 2, 3, 4, 6, 8, 16};
const int kPageSizes[] = {16, 32, 64};

TEST(Attention, EveryElementPairWithAndWithoutRotation) {
  int i = 0;
  for (const KvElem key : kElems)
    for (const KvElem value : kElems)
      for (const bool rotation : {false, true}) {
        if (rotation && !is_8bit(key)) continue;
        ++i;
        Case c{.key = key, .value = value, .rotation = rotation, .per_head = i % 3 != 0};
        c.width = c.value_width = kWidths[i % 6];
        c.group = kGroups[i % 4];
        c.compute = i % 2 == 0 ? DType::bf16 : DType::f32;
        run(c);
      }
}

TEST(Attention, EveryHeadSizeAndGroup) {
  int i = 0;
  for (const int width : kWidths)
    for (const int group : kGroups) {
      ++i;
      Case c{
          .key = kElems[i % 5], .value = kElems[(i + i / 5) % 5], .rotation = is_8bit(kElems[i % 5]), .group = group};
      c.width = c.value_width = width;
      c.kv_heads = 1 + i % 3 % 2;
      run(c);
    }
}

TEST(Attention, WindowsSinksAndCapsAtPageEdges) {
  int i = 0;
  for (const int page_size : kPageSizes)
    for (const int window : {0, 1, 2, 7, page_size - 1, page_size, page_size + 1, 3 * page_size})
      for (const bool sinks : {false, true}) {
        ++i;
        Case c{.key = kElems[i % 5],
               .value = kElems[(i / 5 + 2) % 5],
               .group = 3,
               .page_size = page_size,
               .window = window};
        c.soft_cap = i % 3 == 0 ? 2.5f : 0.0f;
        c.sinks = sinks;
        run(c);
      }
}

TEST(Attention, ValuesNarrowerThanKeys) {
  run({.key = KvElem::e4m3, .value = KvElem::e4m3, .width = 192, .value_width = 128});
  run({.key = KvElem::bf16, .value = KvElem::bf16, .width = 192, .value_width = 128});
  run({.key = KvElem::int8, .value = KvElem::e4m3, .rotation = true, .width = 96, .value_width = 64});
}

TEST(Attention, SmallPagesAndOddWidths) {
  for (const int width : {8, 16, 24, 40, 72, 112})
    for (const KvElem elem : kElems) {
      Case c{.key = elem, .value = elem, .width = width, .value_width = width, .page_size = 8};
      run(c);
    }
}

TEST(Attention, LongContextsBesideShortOnes) {
  for (const KvElem elem : {KvElem::e4m3, KvElem::int8, KvElem::bf16}) {
    Case c{.key = elem, .value = elem, .rotation = is_8bit(elem), .kv_heads = 1, .group = 3, .page_size = 64};
    c.sequences = {{1500, 1}, {3, 1}, {900, 2}, {130, 130}};
    run(c);
    c.window = 128;
    c.sinks = true;
    run(c);
  }
}

TEST(Attention, WideHeads) {
  for (const int width : {320, 512})
    for (const KvElem elem : {KvElem::bf16, KvElem::e4m3, KvElem::int8}) {
      Case c{
          .key = elem, .value = elem, .rotation = is_8bit(elem), .width = width, .value_width = width, .kv_heads = 1};
      run(c);
    }
}

// Runs the first sequence of `whole`, cut off at cut.context, between two others, and expects the bits of its rows in
// `want`.
void expect_same_bits(Path& path, const Case& whole, const Numbers& n, const Sequence& cut,
                      const std::vector<float>& want) {
  Case part = whole;
  part.sequences = {{33, 1}, cut, {20, 20}};
  Numbers m = make_numbers(part, 8);
  const std::int64_t cached_row = std::int64_t{whole.kv_heads} * whole.width;
  const std::int64_t row = cached_row * whole.group;
  const std::int64_t first = cut.context - cut.length - (whole.sequences[0].context - whole.sequences[0].length);
  m.keys[1].assign(n.keys[0].begin(), n.keys[0].begin() + cut.context * cached_row);
  m.values[1].assign(n.values[0].begin(), n.values[0].begin() + cut.context * cached_row);
  m.queries[1].assign(n.queries[0].begin() + first * row, n.queries[0].begin() + (first + cut.length) * row);
  const std::vector<float> got = attention_on(path, part, m);
  EXPECT_TRUE(std::equal(got.begin() + row, got.begin() + row * (1 + cut.length), want.begin() + first * row))
      << describe(part) << " cut " << cut.context << " rows " << cut.length;
}

// Deterministic: whole, in chunks or token by token, alone or beside others, a row keeps its bits.
TEST(Attention, ChunksAndBatchDoNotChangeBits) {
  for (const KvElem elem : kElems)
    for (const int window : {0, 20}) {
      Case whole{.key = elem, .value = elem, .rotation = is_8bit(elem), .group = 3, .window = window};
      whole.sequences = {{70, 70}};
      const Numbers n = make_numbers(whole, 7);
      for_each_path([&](Path& path) {
        if (!path.deterministic) return;
        const std::vector<float> want = attention_on(path, whole, n);
        for (const Sequence& cut : {Sequence{1, 1}, {16, 16}, {17, 1}, {40, 7}, {40, 23}, {70, 1}, {70, 33}, {69, 2}})
          expect_same_bits(path, whole, n, cut, want);
      });
    }
}

// The same where a wing may split one sequence's context among threads.
TEST(Attention, SplitsOfLongContextsDoNotChangeBits) {
  for (const KvElem elem : {KvElem::bf16, KvElem::int8}) {
    Case whole{.key = elem, .value = elem, .kv_heads = 1, .group = 3, .page_size = 64};
    whole.sequences = {{2200, 40}};
    const Numbers n = make_numbers(whole, 7);
    for_each_path([&](Path& path) {
      if (!path.deterministic) return;
      const std::vector<float> want = attention_on(path, whole, n);
      for (const Sequence& cut : {Sequence{2200, 1}, {2161, 1}, {2200, 17}, {2180, 20}})
        expect_same_bits(path, whole, n, cut, want);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
