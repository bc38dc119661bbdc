// attention, from kv_write to the result, against a softmax in two passes in double over rows worked out in
// kv_reference. Every batch is ragged: decodes and chunks at and around page edges. Slots that hold no visible token
// are poison.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tests/conformance/attention_case.h"
#include "tests/conformance/numbers.h"

namespace octavo::conformance {
namespace {

// Lengths at and around page edges; chunks that begin a sequence, cross a page, and end in the middle of one.
std::vector<Sequence> ragged(int ps) {
  return {{1, 1},           {ps - 1, 1},     {ps, 1}, {ps + 1, 1}, {2 * ps + 3, 1},
          {ps + 2, ps + 2}, {2 * ps + 1, 5}, {ps, 3}, {1, 1}};
}

// Processor paths differ from the reference by their sums only, but for chunks in whole numbers of 16 bits: of the wide
// heads here, whose scores lie far apart, the worst number is as wrong as the rounding of a bf16 result makes it.
// Elsewhere queries and probabilities may be rounded to fewer bits.
double bound_of(const Path& path, const Case& c) {
  if (path.whole_chunks && c.compute == DType::bf16) return 4e-3;
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

// What the NVIDIA wing's table of kernels holds: heads of 16 to 512 numbers in steps of 16, K as wide as V, and these
// pairs.
bool in_cuda_table(const Case& c) {
  using enum KvElem;
  const std::pair<KvElem, KvElem> pairs[] = {{bf16, bf16}, {bf16, e4m3}, {e4m3, e4m3},
                                             {e5m2, e5m2}, {int8, e4m3}, {int8, int8}};
  return std::find(std::begin(pairs), std::end(pairs), std::pair(c.key, c.value)) != std::end(pairs) &&
         c.width == c.value_width && c.width % 16 == 0 && c.width <= 512;
}

// The nearest case that a wing serves which computes in bfloat16 only, with pages of 64. What it does not serve it
// refuses with the shape's name.
Case in_bf16(Case c) {
  c.compute = DType::bf16;
  c.page_size = 64;
  return c;
}
void run_in_bf16(Path& path, Case c, const std::vector<Sequence>& sequences, std::uint64_t seed) {
  c = in_bf16(c);
  c.sequences = sequences.empty() ? ragged(c.page_size) : sequences;
  const Numbers n = make_numbers(c, seed);
  const Status served = path.backend->supports(shape_of(c, n.format));
  if (!served) {
    const std::string& sentence = served.error().message();
    EXPECT_FALSE(in_cuda_table(c) && sentence.find("shared memory") == std::string::npos) << describe(c) << sentence;
    const bool names_it = sentence.find(std::to_string(c.width)) != std::string::npos ||
                          sentence.find(name_of(c.key)) != std::string::npos;
    EXPECT_TRUE(names_it && sentence.find("--") != std::string::npos) << describe(c) << ": " << sentence;
    return;
  }
  EXPECT_TRUE(in_cuda_table(c)) << describe(c);
  expect_attention(path, c, n, reference(c, n), bound_of(path, c));
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

// Every kernel of a wing that has one for each width and pair: whole widths, and those that are padded up to them.
TEST(Attention, EveryWidthOfEveryCommonPair) {
  int i = 0;
  for (const int width : {16, 64, 80, 112, 128, 160, 192, 240, 256, 320, 512})
    for (const auto& [key, value] : kCommonPairs) {
      ++i;
      Case c{.key = key, .value = value, .rotation = is_8bit(key), .width = width, .value_width = width};
      c.group = kGroups[i % 7];
      c.kv_heads = 1 + i % 2;
      c.compute = DType::bf16;
      c.page_size = 64;
      c.window = i % 4 == 3 ? 70 : 0;
      c.soft_cap = i % 5 == 4 ? 2.5f : 0.0f;
      c.sinks = i % 3 == 2;
      c.sequences = {{1, 1}, {64, 1}, {330, 1}, {66, 20}, {130, 3}};
      run(c);
    }
}

TEST(Attention, OddGroupsUpToSixteen) {
  for (const int width : {64, 512})
    for (const int group : {1, 3, 5, 7, 9, 11, 13, 15, 16}) {
      Case c{.key = KvElem::int8, .value = KvElem::e4m3, .rotation = true, .width = width, .value_width = width};
      c.group = group;
      c.compute = DType::bf16;
      c.page_size = 64;
      c.sequences = {{130, 1}, {65, 11}};
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

// Contexts that a device cuts into more splits than are merged at once.
TEST(Attention, WideHeadsOverLongContexts) {
  for (const KvElem elem : {KvElem::bf16, KvElem::e4m3, KvElem::int8}) {
    Case c{.key = elem, .value = elem, .width = 512, .value_width = 512, .kv_heads = 1, .group = 3, .page_size = 64};
    c.sequences = {{elem == KvElem::e4m3 ? 8400 : 1500, 1}, {70, 1}};
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

// A NaN in K or V reaches the rows that see it, and no other row of the chunk.
TEST(Attention, RowsBeforeANanAreUntouched) {
  constexpr std::int32_t kLength = 150, kBroken = 70;
  for (const KvElem elem : {KvElem::bf16, KvElem::e4m3})
    for (const bool in_key : {true, false}) {
      Case c{.key = elem, .value = elem, .kv_heads = 1, .group = 3, .page_size = 64, .compute = DType::bf16};
      c.sequences = {{kLength, kLength}};
      Numbers n = make_numbers(c, 5);
      std::vector<double> want = reference(c, n);
      (in_key ? n.keys : n.values)[0][std::size_t{kBroken} * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
      for_each_path([&](Path& path) {
        if (!path.processor) return;
        std::vector<float> got = attention_on(path, c, n);
        const auto first = static_cast<std::ptrdiff_t>(kBroken) * c.group * c.value_width;
        const auto seen = [](float x) { return std::isnan(x); };
        EXPECT_EQ(std::count_if(got.begin(), got.begin() + first, seen), 0) << describe(c);
        EXPECT_EQ(std::count_if(got.begin() + first, got.end(), seen),
                  (std::ssize(got) - first) / (in_key ? 1 : c.value_width))
            << describe(c);
        got.resize(static_cast<std::size_t>(first));
        expect_close(describe(c), got, std::span(want).first(got.size()), c.value_width, bound_of(path, c), c.compute);
      });
    }
}

// Deterministic: whole, in chunks or token by token, alone or beside others, a row keeps its bits.
TEST(Attention, ChunksAndBatchDoNotChangeBits) {
  for (const KvElem elem : kElems)
    for (const int window : {0, 20}) {
      Case given{.key = elem, .value = elem, .rotation = is_8bit(elem), .group = 3, .window = window};
      given.sequences = {{70, 70}};
      for_each_path([&](Path& path) {
        if (!path.deterministic || (!path.processor && !in_cuda_table(given))) return;
        const Case whole = path.processor ? given : in_bf16(given);
        const Numbers n = make_numbers(whole, 7);
        const std::vector<float> want = attention_on(path, whole, n);
        for (const Sequence& cut : {Sequence{1, 1}, {16, 16}, {17, 1}, {40, 7}, {40, 23}, {70, 1}, {70, 33}, {69, 2}})
          expect_same_bits(path, whole, n, cut, want);
      });
    }
}

// Beside others a decode keeps its bits where that was asked for. Elsewhere a device cuts contexts by the work of the
// whole step: then sums are those of other pieces, and no more than a rounding apart.
TEST(Attention, TheRestOfABatchDoesNotChangeADecode) {
  for (const auto& [key, value] : kCommonPairs) {
    Case c{.key = key, .value = value, .rotation = is_8bit(key), .kv_heads = 1, .group = 3, .page_size = 64};
    c.compute = DType::bf16;
    c.sequences = {{2200, 1}};
    const Numbers alone = make_numbers(c, 7);
    Case among = c;
    among.sequences = {{2200, 1}, {900, 1}, {5, 1}, {300, 40}};
    Numbers n = make_numbers(among, 8);
    n.keys[0] = alone.keys[0];
    n.values[0] = alone.values[0];
    n.queries[0] = alone.queries[0];
    for_each_path([&](Path& path) {
      if (path.processor && !path.deterministic) return;
      const std::vector<float> want = attention_on(path, c, alone);
      std::vector<float> got = attention_on(path, among, n);
      got.resize(want.size());
      if (path.deterministic) {
        EXPECT_TRUE(got == want) << describe(among);
      } else {
        expect_close(describe(among), got, std::vector<double>(want.begin(), want.end()), c.value_width, 2e-2,
                     c.compute);
      }
    });
  }
}

// The same where a wing may split one sequence's context among threads.
TEST(Attention, SplitsOfLongContextsDoNotChangeBits) {
  for (const KvElem elem : {KvElem::bf16, KvElem::int8}) {
    Case given{.key = elem, .value = elem, .kv_heads = 1, .group = 3, .page_size = 64};
    given.sequences = {{2200, 40}};
    for_each_path([&](Path& path) {
      if (!path.deterministic) return;
      const Case whole = path.processor ? given : in_bf16(given);
      const Numbers n = make_numbers(whole, 7);
      const std::vector<float> want = attention_on(path, whole, n);
      for (const Sequence& cut : {Sequence{2200, 1}, {2161, 1}, {2200, 17}, {2180, 20}})
        expect_same_bits(path, whole, n, cut, want);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
