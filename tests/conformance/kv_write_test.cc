// kv_write: what lies in the cache bit for bit, what the queries become, and what the counters say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/page_layout.h"
#include "kv/codec.h"
#include "tests/conformance/cache.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr int kPageSize = 16;
constexpr int kNumPages = 6;

KvFormat format_of(KvElem key, KvElem value, bool rotation, int heads, int width) {
  const auto grain = [](KvElem elem) {
    return elem == KvElem::int8 ? KvGrain::token_head : is_8bit(elem) ? KvGrain::head : KvGrain::none;
  };
  KvFormat format;
  format.num_segments = 2;
  const KvTransform transform = rotation ? KvTransform::hadamard : KvTransform::none;
  format.segments[0] = {KvPart::key, key, grain(key), transform, heads, width};
  format.segments[1] = {KvPart::value, value, grain(value), KvTransform::none, heads, width};
  return format;
}

// One head's row out of a page as the processor lays it out: codes for 8 bits, numbers otherwise; and its scale.
struct StoredRow {
  std::vector<int> codes;
  std::vector<double> numbers;
  float scale = 0.0f;
};
StoredRow stored_row(const KvFormat& format, const std::vector<std::byte>& pages, int segment, int head, int slot) {
  const cpu::SegmentLayout layout = cpu::page_layout(format, kPageSize).segments[segment];
  const std::byte* page = pages.data() + slot / kPageSize * bytes_per_page(format, kPageSize);
  const std::byte* from = page + layout.row(head, slot % kPageSize);
  StoredRow row;
  for (int i = 0; i < format.segments[segment].width; ++i, from += layout.step) {
    if (is_8bit(format.segments[segment].elem)) {
      row.codes.push_back(static_cast<int>(*from));
    } else if (format.segments[segment].elem == KvElem::f32) {
      float x;
      std::memcpy(&x, from, sizeof x);
      row.numbers.push_back(x);
    } else {
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, from, 2);
      float x;
      std::memcpy(&x, &bits, sizeof x);
      row.numbers.push_back(x);
    }
  }
  if (layout.scales >= 0) {
    std::uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, page + layout.scale(head, slot % kPageSize), 2);
    std::memcpy(&row.scale, &bits, sizeof row.scale);
  }
  return row;
}

// Deviations from subnormal codes to far beyond the largest, zeros and exact ties among them.
std::vector<float> wide_numbers(Random& random, std::int64_t rows, int width) {
  std::vector<float> numbers;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float deviation = std::ldexp(1.0f, random.below(24) - 14);
    for (int i = 0; i < width; ++i) {
      const float x = random.normal() * deviation;
      numbers.push_back(r % 7 == 3 ? 0.0f : i % 5 == 0 ? std::round(x * 16) / 16 : x);
    }
  }
  return numbers;
}

struct Written {
  std::vector<std::byte> pages;
  KvCounters counters;
  std::vector<float> query;
};

struct Input {
  KvFormat format;
  std::int64_t q_heads = 0;
  std::vector<float> q, k, v;
  std::vector<std::int32_t> slots;
  DType compute = DType::f32;
};

const std::vector<float> kKeyScales = {0.03f, 0.7f, 11.0f};
const std::vector<float> kValueScales = {5.0f, 0.125f, 0.02f};

Written write(Path& path, const Input& input) {
  Arena arena(path.backend->device());
  const DType compute = path.processor ? input.compute : DType::bf16;  // elsewhere pages of 64 and bfloat16 only
  const int page_size = path.processor ? kPageSize : 64;
  Cache cache(arena, *path.backend, input.format, page_size, kNumPages, kKeyScales, kValueScales);
  const auto tokens = static_cast<std::int64_t>(input.slots.size());
  const std::int64_t heads = input.format.segments[0].heads;
  const std::int64_t width = input.format.segments[0].width;
  // q, k and v side by side, as one projection leaves them.
  std::vector<float> rows;
  const auto append = [&](const std::vector<float>& from, std::int64_t t, std::int64_t n) {
    rows.insert(rows.end(), from.begin() + t * n, from.begin() + (t + 1) * n);
  };
  for (std::int64_t t = 0; t < tokens; ++t) {
    append(input.q, t, input.q_heads * width);
    append(input.k, t, heads * width);
    append(input.v, t, heads * width);
  }
  const Tensor all = arena.floats(rows, {tokens, (input.q_heads + 2 * heads) * width}, compute);
  const Query query =
      cache.write(all.columns(0, input.q_heads * width).split_last(input.q_heads, width),
                  all.columns(input.q_heads * width, heads * width).split_last(heads, width),
                  all.columns((input.q_heads + heads) * width, heads * width).split_last(heads, width), input.slots);
  return {cache.page_bytes(), cache.counters(), path.processor ? arena.read(query.values) : std::vector<float>()};
}

Input make_input(const KvFormat& format, DType compute, std::uint64_t seed) {
  Random random(seed);
  Input input{.format = format, .q_heads = 6, .q = {}, .k = {}, .v = {}, .slots = {}, .compute = compute};
  const int width = format.segments[0].width;
  const std::int64_t heads = format.segments[0].heads;
  for (std::int32_t slot = kPageSize; slot < kNumPages * kPageSize; slot += 1 + random.below(3))
    input.slots.push_back(slot);
  std::reverse(input.slots.begin(), input.slots.end());
  const auto tokens = static_cast<std::int64_t>(input.slots.size());
  input.q = rounded(random.normals(tokens * input.q_heads * width), compute);
  input.k = rounded(wide_numbers(random, tokens * heads, width), compute);
  input.v = rounded(wide_numbers(random, tokens * heads, width), compute);
  return input;
}

// Compares one segment of everything written with the reference; adds what the counters must hold.
void expect_segment(const Input& input, const Written& written, int segment, KvCounters& expected) {
  const KvSegment& kind = input.format.segments[segment];
  const std::vector<float>& numbers = segment == 0 ? input.k : input.v;
  float& amax = segment == 0 ? expected.key_amax : expected.value_amax;
  auto at = numbers.begin();
  for (const std::int32_t slot : input.slots)
    for (int head = 0; head < kind.heads; ++head, at += kind.width) {
      std::vector<float> row(at, at + kind.width);
      if (kind.transform == KvTransform::hadamard) hadamard(row.data(), kind.width);
      const float scale = (segment == 0 ? kKeyScales : kValueScales)[static_cast<std::size_t>(head)];
      const ReferenceRow want = cached(kind, scale, row);
      const StoredRow got = stored_row(input.format, written.pages, segment, head, slot);
      if (is_8bit(kind.elem)) {
        EXPECT_EQ(got.codes, want.codes) << describe(input.format) << " slot " << slot << " head " << head;
      } else {
        EXPECT_EQ(got.numbers, want.values) << describe(input.format) << " slot " << slot << " head " << head;
      }
      EXPECT_EQ(got.scale, kind.grain == KvGrain::token_head ? want.scale : 0.0f);
      expected.saturated += want.saturated;
      expected.written += static_cast<std::uint64_t>(kind.width);
      for (const float x : row) amax = std::max(amax, std::fabs(x));
    }
}

TEST(KvWrite, CodesScalesAndCountersBitForBit) {
  int i = 0;
  for (const KvElem key : kElems)
    for (const KvElem value : kElems)
      for (const bool rotation : {false, true}) {
        if (rotation && !is_8bit(key)) continue;
        const int width = std::vector<int>{64, 96, 80, 128, 24}[static_cast<std::size_t>(i % 5)];
        const Input input =
            make_input(format_of(key, value, rotation, 3, width), i % 2 == 0 ? DType::f32 : DType::bf16, 20 + i);
        ++i;
        for_each_path([&](Path& path) {
          if (!path.processor) return;  // it lays its pages out in another order
          const Written written = write(path, input);
          KvCounters expected;
          expect_segment(input, written, 0, expected);
          expect_segment(input, written, 1, expected);
          EXPECT_EQ(written.counters.saturated, expected.saturated) << describe(input.format);
          EXPECT_EQ(written.counters.written, expected.written);
          EXPECT_EQ(written.counters.key_amax, expected.key_amax);
          EXPECT_EQ(written.counters.value_amax, expected.value_amax);
        });
      }
}

// The rotation as written out in a matrix, on queries and, kept in float32, on keys.
TEST(KvWrite, RotationIsTheSylvesterMatrixInBlocks) {
  for (const int width : {64, 80, 96, 112, 128, 192, 256}) {
    const Input input = make_input(format_of(KvElem::f32, KvElem::f32, true, 3, width), DType::f32, 5);
    for_each_path([&](Path& path) {
      if (!path.processor) return;
      const Written written = write(path, input);
      std::vector<double> want;
      for (auto at = input.q.begin(); at != input.q.end(); at += width) {
        const std::vector<double> row = rotated(std::vector<double>(at, at + width));
        want.insert(want.end(), row.begin(), row.end());
      }
      expect_close("rotated queries of width " + std::to_string(width), written.query, want, width, 2e-6);
      std::vector<float> got;
      want.clear();
      auto at = input.k.begin();
      for (const std::int32_t slot : input.slots)
        for (int head = 0; head < 3; ++head, at += width) {
          const std::vector<double> row = rotated(std::vector<double>(at, at + width));
          want.insert(want.end(), row.begin(), row.end());
          const StoredRow stored = stored_row(input.format, written.pages, 0, head, slot);
          got.insert(got.end(), stored.numbers.begin(), stored.numbers.end());
        }
      expect_close("rotated keys of width " + std::to_string(width), got, want, width, 2e-6);
    });
  }
}

// A NaN stays in its row, infinities saturate, and neither touches another row or a scale.
TEST(KvWrite, NanAndInfinityStayInTheirRow) {
  for (const KvElem elem : {KvElem::e4m3, KvElem::e5m2, KvElem::int8}) {
    const Input clean = make_input(format_of(elem, elem, false, 3, 64), DType::f32, 6);
    Input broken = clean;
    broken.k[64 * 4 + 10] = std::nanf("");  // token 1, head 1
    broken.v[64 * 6 + 3] = -kInfinity;      // token 2, head 0
    for_each_path([&](Path& path) {
      if (!path.processor) return;
      const Written good = write(path, clean);
      const Written bad = write(path, broken);
      const StoredRow nan = stored_row(broken.format, bad.pages, 0, 1, broken.slots[1]);
      if (elem == KvElem::int8) {
        EXPECT_TRUE(std::isnan(nan.scale));
      } else {
        EXPECT_EQ(nan.codes[10], 0x7F) << "a NaN";
      }
      const StoredRow infinite = stored_row(broken.format, bad.pages, 1, 0, broken.slots[2]);
      EXPECT_EQ(infinite.codes[3], elem == KvElem::int8 ? 0x81 : elem == KvElem::e4m3 ? 0xFE : 0xFB);
      EXPECT_TRUE(elem != KvElem::int8 || std::isfinite(infinite.scale));
      EXPECT_EQ(bad.counters.key_amax, good.counters.key_amax) << "a NaN is no magnitude";
      for (std::size_t t = 0; t < clean.slots.size(); ++t)
        for (int head = 0; head < 3; ++head)
          for (int segment = 0; segment < 2; ++segment) {
            if ((segment == 0 && t == 1 && head == 1) || (segment == 1 && t == 2 && head == 0)) continue;
            const StoredRow a = stored_row(clean.format, good.pages, segment, head, clean.slots[t]);
            const StoredRow b = stored_row(clean.format, bad.pages, segment, head, clean.slots[t]);
            EXPECT_EQ(a.codes, b.codes);
            EXPECT_EQ(a.scale, b.scale);
          }
    });
  }
}

// Padding is written to page 0 and raises no counter, whatever it holds.
TEST(KvWrite, PaddingIsNotCounted) {
  Input input = make_input(format_of(KvElem::e4m3, KvElem::int8, true, 3, 64), DType::f32, 7);
  for_each_path([&](Path& path) {
    const KvCounters before = write(path, input).counters;
    Input padded = input;
    padded.slots.insert(padded.slots.end(), {0, 3});
    padded.q.insert(padded.q.end(), 2 * 6 * 64, 1e30f);
    padded.k.insert(padded.k.end(), 2 * 3 * 64, 1e30f);
    padded.v.insert(padded.v.end(), 2 * 3 * 64, std::nanf(""));
    const KvCounters after = write(path, padded).counters;
    EXPECT_EQ(after.written, before.written);
    EXPECT_EQ(after.saturated, before.saturated);
    EXPECT_EQ(after.key_amax, before.key_amax);
    EXPECT_EQ(after.value_amax, before.value_amax);
  });
}

struct PrepareCase {
  int width = 64;
  int pairs = 32;  // rotated pairs; 0: no rope
  bool interleaved = false;
  bool norms = true;
  float offset = 0.0f;
  bool rounded_first = true;
  bool own_cache = true;
  DType compute = DType::f32;
};

std::vector<double> normed(const PrepareCase& c, std::vector<double> row, const std::vector<float>* weight) {
  double squares = 0.0;
  for (const double x : row) squares += x * x;
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-6);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] *= factor * (weight == nullptr ? 1.0 : (*weight)[i] + c.offset);
  return row;
}

std::vector<double> turned(const PrepareCase& c, std::vector<double> row, const std::vector<float>& inv_freq,
                           int position) {
  const std::vector<double> x = row;
  const auto pairs = static_cast<std::size_t>(c.pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<float>(position) * inv_freq[i];
    const double cosine = 1.25 * std::cos(angle);
    const double sine = 1.25 * std::sin(angle);
    const double a = x[c.interleaved ? 2 * i : i];
    const double b = x[c.interleaved ? 2 * i + 1 : i + pairs];
    row[i] = a * cosine - b * sine;
    row[i + pairs] = b * cosine + a * sine;
  }
  return row;
}

void run_prepare(const PrepareCase& c) {
  Random random(31);
  constexpr std::int64_t kTokens = 9, kHeads = 2, kQueryHeads = 4;
  const std::int64_t w = c.width;
  const auto numbers = [&](std::int64_t heads) {
    return rounded(random.normals(kTokens * heads * w, 3.0f), c.compute);
  };
  const std::vector<float> q = numbers(kQueryHeads), k = numbers(kHeads), v = numbers(kHeads);
  const std::vector<float> q_weight = random.normals(w), k_weight = random.normals(w);
  std::vector<float> inv_freq;
  for (int i = 0; i < c.pairs; ++i)
    inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(c.pairs)));
  const std::vector<std::int32_t> positions = {0, 1, 2, 77, 511, 4095, 32767, 131071, 5};
  std::vector<std::int32_t> slots;
  for (std::int32_t t = 0; t < kTokens; ++t) slots.push_back(kPageSize + 3 * t);

  const auto prepared = [&](const std::vector<float>& x, std::int64_t heads, const std::vector<float>* weight,
                            bool rope) {
    std::vector<double> want;
    for (std::int64_t i = 0; i < kTokens * heads; ++i) {
      std::vector<double> row(x.begin() + i * w, x.begin() + (i + 1) * w);
      if (c.norms) row = normed(c, row, weight);
      if (rope && c.pairs > 0) row = turned(c, row, inv_freq, positions[static_cast<std::size_t>(i / heads)]);
      want.insert(want.end(), row.begin(), row.end());
    }
    return want;
  };
  for_each_path([&](Path& path) {
    if (!path.processor) return;
    Arena arena(path.backend->device());
    const KvFormat format = format_of(KvElem::f32, KvElem::f32, false, kHeads, c.width);
    Cache cache(arena, *path.backend, format, kPageSize, kNumPages, kKeyScales, kValueScales);
    const NormRule q_norm{arena.floats(q_weight, {w}), 1e-6f, c.offset, c.rounded_first};
    const NormRule k_norm{arena.floats(k_weight, {w}), 1e-6f, c.offset, c.rounded_first};
    const NormRule v_norm{Tensor(), 1e-6f, 0.0f, c.rounded_first};
    const Query query = cache.blank_query(kTokens, kQueryHeads, w);
    RopeRule rope{.inv_freq = {}, .factor = 1.25f, .interleaved = c.interleaved};
    if (c.pairs > 0) rope.inv_freq = arena.floats(inv_freq, {c.pairs});
    path.backend->ops().kv_write({.q = arena.floats(q, {kTokens, kQueryHeads, w}, c.compute),
                                  .k = c.own_cache ? arena.floats(k, {kTokens, kHeads, w}, c.compute) : Tensor(),
                                  .v = c.own_cache ? arena.floats(v, {kTokens, kHeads, w}, c.compute) : Tensor(),
                                  .q_norm = c.norms ? &q_norm : nullptr,
                                  .k_norm = c.norms ? &k_norm : nullptr,
                                  .v_norm = c.norms ? &v_norm : nullptr,
                                  .rope = rope,
                                  .positions = arena.ints(positions, {kTokens}),
                                  .slots = arena.ints(slots, {kTokens}),
                                  .kv = cache.view(),
                                  .query = query});
    expect_close("queries", arena.read(query.values), prepared(q, kQueryHeads, &q_weight, true), w, 3e-6);
    if (!c.own_cache) {
      EXPECT_EQ(cache.counters().written, 0u);
      return;
    }
    const std::vector<std::byte> pages = cache.page_bytes();
    std::vector<float> keys, values;
    for (const std::int32_t slot : slots)
      for (int head = 0; head < kHeads; ++head) {
        const StoredRow key = stored_row(format, pages, 0, head, slot);
        const StoredRow value = stored_row(format, pages, 1, head, slot);
        keys.insert(keys.end(), key.numbers.begin(), key.numbers.end());
        values.insert(values.end(), value.numbers.begin(), value.numbers.end());
      }
    expect_close("keys", keys, prepared(k, kHeads, &k_weight, true), w, 3e-6);
    expect_close("values", values, prepared(v, kHeads, nullptr, false), w, 3e-6);
  });
}

TEST(KvWrite, NormsAndRopeBeforeTheCache) {
  run_prepare({});
  run_prepare({.compute = DType::bf16});
  run_prepare({.norms = false});
  run_prepare({.pairs = 0});
  run_prepare({.interleaved = true, .norms = false});
  run_prepare({.width = 256, .pairs = 32, .offset = 1.0f, .rounded_first = false});
  run_prepare({.width = 80, .pairs = 40});
  run_prepare({.width = 24, .pairs = 5, .compute = DType::bf16});
}

TEST(KvWrite, LayersThatReadAnothersCacheOnlyPrepareQueries) { run_prepare({.own_cache = false}); }

}  // namespace
}  // namespace octavo::conformance
