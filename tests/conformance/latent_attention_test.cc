// attention over a latent record: one KV head whose keys are latent and rope side by side and whose values are the
// latent.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/conformance/cache.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr float kScale = 0.05f;

// One sequence, whose last rows are queries.
struct LatentSizes {
  std::int32_t latent = 160;
  std::int32_t rope = 16;
  std::int32_t heads = 5;
  std::int32_t tokens = 41;
  std::int32_t rows = 9;
  std::int32_t page_size = 16;

  std::int32_t pages() const { return (tokens + page_size - 1) / page_size; }
  std::int32_t width() const { return latent + rope; }  // of a query
};

struct LatentKind {
  KvElem elem = KvElem::f32;
  KvGrain grain = KvGrain::none;
};
constexpr LatentKind kTensor{KvElem::e4m3, KvGrain::tensor}, kBlocks{KvElem::e4m3, KvGrain::token_block},
    kInt8{KvElem::int8, KvGrain::token_head}, kWide{KvElem::e5m2, KvGrain::token_block};

KvFormat format_of(const LatentSizes& sizes, LatentKind latent, LatentKind rope) {
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::latent, latent.elem, latent.grain, KvTransform::none, 1, sizes.latent};
  format.segments[1] = {KvPart::rope, rope.elem, rope.grain, KvTransform::none, 1, sizes.rope};
  return format;
}

// Pages in a changed order, from 1 on.
std::vector<std::int32_t> table_of(const LatentSizes& sizes) {
  std::vector<std::int32_t> pages;
  for (std::int32_t i = 0; i < sizes.pages(); ++i) pages.push_back(1 + (i ^ 1) % sizes.pages());
  if (sizes.pages() % 2 == 1) pages.back() = sizes.pages();
  return pages;
}

std::vector<std::int32_t> slots_of_tokens(const LatentSizes& sizes) {
  const std::vector<std::int32_t> table = table_of(sizes);
  std::vector<std::int32_t> slots;
  for (std::int32_t j = 0; j < sizes.tokens; ++j)
    slots.push_back(table[static_cast<std::size_t>(j / sizes.page_size)] * sizes.page_size + j % sizes.page_size);
  return slots;
}

std::vector<double> reference(const LatentSizes& sizes, const KvFormat& format, const std::vector<float>& q,
                              const std::vector<float>& latent, const std::vector<float>& rope) {
  std::vector<std::vector<double>> keys;
  for (std::int32_t j = 0; j < sizes.tokens; ++j) {
    const auto row = [j](const std::vector<float>& x, std::int32_t n) {
      return std::vector<float>(x.begin() + j * n, x.begin() + (j + 1) * n);
    };
    std::vector<double>& key = keys.emplace_back(cached(format.segments[0], 0.5f, row(latent, sizes.latent)).values);
    const std::vector<double> turned = cached(format.segments[1], 1.0f, row(rope, sizes.rope)).values;
    key.insert(key.end(), turned.begin(), turned.end());
  }
  std::vector<double> want;
  for (std::int32_t i = 0; i < sizes.rows * sizes.heads; ++i) {
    std::vector<double> out(static_cast<std::size_t>(sizes.latent), 0.0);
    double sum = 0.0;
    for (std::int32_t j = 0; j <= sizes.tokens - sizes.rows + i / sizes.heads; ++j) {
      const std::vector<double>& key = keys[static_cast<std::size_t>(j)];
      double score = 0.0;
      for (std::size_t d = 0; d < key.size(); ++d) score += key[d] * q[static_cast<std::size_t>(i) * key.size() + d];
      const double p = std::exp(kScale * score);
      sum += p;
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += p * key[d];
    }
    for (const double x : out) want.push_back(x / sum);
  }
  return want;
}

// What one sequence has, drawn at random.
struct LatentInput {
  LatentSizes sizes;
  std::vector<float> q, latent, rope;
  std::vector<double> want;

  LatentInput(const LatentSizes& of, const KvFormat& format, std::uint64_t seed) : sizes(of) {
    Random random(seed);
    const float deviation = 40.0f / static_cast<float>(sizes.width());  // of queries: no key takes all
    q = random.normals(sizes.rows * sizes.heads * sizes.width(), deviation);
    latent = random.normals(sizes.tokens * sizes.latent, 3.0f);
    rope = random.normals(sizes.tokens * sizes.rope, 3.0f);
    want = reference(sizes, format, q, latent, rope);
  }
};

// Elsewhere than on the processor pages have 64 tokens, queries and results are bfloat16, and so are the numbers that
// are multiplied.
constexpr double kLatentBound = 2e-5, kLatentBoundInBfloat = 2e-2;
constexpr int kPageSizeElsewhere = 64;

// Those of the sequence's last rows, after all of its tokens were written.
Query write_all(Arena& arena, Cache& cache, const LatentInput& in, const std::vector<std::int32_t>& slots) {
  const LatentSizes& sizes = in.sizes;
  const std::int64_t width = sizes.width();
  // Queries of the tokens before the step are never read.
  std::vector<float> all(static_cast<std::size_t>((sizes.tokens - sizes.rows) * sizes.heads * width), std::nanf(""));
  all.insert(all.end(), in.q.begin(), in.q.end());
  Query query = cache.write(arena.floats(all, {sizes.tokens, sizes.heads, width}),
                            arena.floats(in.latent, {sizes.tokens, 1, sizes.latent}),
                            arena.floats(in.rope, {sizes.tokens, 1, sizes.rope}), slots);
  query.values = query.values.rows(sizes.tokens - sizes.rows, sizes.rows);
  if (!query.scale.empty()) query.scale = query.scale.rows(sizes.tokens - sizes.rows, sizes.rows);
  return query;
}

void expect_latent_attention(const LatentSizes& given, const KvFormat& format) {
  const LatentInput in(given, format, 41);
  for_each_path([&](Path& path) {
    LatentSizes sizes = given;
    if (!path.processor) sizes.page_size = kPageSizeElsewhere;
    if (!path.backend->supports({.format = format, .q_heads = sizes.heads, .page_size = sizes.page_size})) return;
    Arena arena(path.backend->device());
    Cache cache(arena, *path.backend, format, sizes.page_size, sizes.pages() + 1, std::vector<float>{0.5f},
                std::vector<float>{1.0f});
    cache.poison();
    cache.set_table({table_of(sizes)});
    const Query query = write_all(arena, cache, in, slots_of_tokens(sizes));
    if (format.segments[0].grain == KvGrain::token_block) {
      EXPECT_EQ(cache.counters().saturated, 0u) << describe(format);
    }
    EXPECT_EQ(cache.counters().written, static_cast<std::uint64_t>(sizes.tokens * sizes.width())) << describe(format);
    const DType result = path.processor ? DType::f32 : DType::bf16;
    const Tensor out = attend(arena, *path.backend, cache, query, std::vector<std::int32_t>{0, sizes.rows},
                              std::vector<std::int32_t>{sizes.tokens}, {.scale = kScale, .sinks = {}}, result);
    expect_close(describe(format) + " " + std::to_string(sizes.tokens) + " tokens", arena.read(out), in.want,
                 sizes.latent, path.processor ? kLatentBound : kLatentBoundInBfloat, result);
  });
}

const std::pair<LatentKind, LatentKind> kLatentKinds[] = {
    {LatentKind{}, LatentKind{}},        {LatentKind{KvElem::bf16}, LatentKind{KvElem::bf16}},
    {kTensor, LatentKind{KvElem::bf16}}, {kTensor, kTensor},
    {kBlocks, LatentKind{KvElem::bf16}}, {kBlocks, kBlocks},
    {kInt8, LatentKind{KvElem::bf16}},   {kWide, LatentKind{KvElem::e5m2, KvGrain::tensor}}};

TEST(LatentAttention, KeysAreLatentAndRopeValuesAreLatent) {
  for (const auto& [latent, rope] : kLatentKinds) expect_latent_attention({}, format_of({}, latent, rope));
}

// Several spans of the cache, more heads than a unit takes, pages smaller and larger than its blocks, chunks and single
// tokens; widths as published, and ones that the vector paths leave to the plain one.
TEST(LatentAttention, LongContextsAndManyHeads) {
  const LatentSizes cases[] = {
      {.latent = 144, .rope = 64, .heads = 34, .tokens = 540, .rows = 1, .page_size = 64},
      {.latent = 512, .rope = 64, .heads = 1, .tokens = 70, .rows = 14, .page_size = 16},
      {.latent = 48, .rope = 32, .heads = 3, .tokens = 300, .rows = 13, .page_size = 8},
      {.latent = 40, .rope = 24, .heads = 2, .tokens = 70, .rows = 5, .page_size = 16},
      {.latent = 64, .rope = 16, .heads = 2, .tokens = 8400, .rows = 1, .page_size = 64},
  };
  for (const LatentSizes& sizes : cases)
    for (const auto& [latent, rope] : kLatentKinds) expect_latent_attention(sizes, format_of(sizes, latent, rope));
}

// Decodes, of which one has splits, beside a chunk: each reads its own pages.
TEST(LatentAttention, StepsOfDecodesAndAChunk) {
  const std::int32_t tokens[] = {700, 3, 90}, rows[] = {1, 1, 20};
  for (const auto& [latent, rope] : kLatentKinds) {
    const KvFormat format = format_of({.latent = 64, .rope = 32}, latent, rope);
    std::vector<LatentInput> inputs;
    for (const std::size_t s : {0, 1, 2})
      inputs.emplace_back(LatentSizes{.latent = 64, .rope = 32, .heads = 20, .tokens = tokens[s], .rows = rows[s]},
                          format, 44 + s);
    for_each_path([&](Path& path) {
      const int page_size = path.processor ? 16 : kPageSizeElsewhere;
      if (!path.backend->supports({.format = format, .q_heads = 20, .page_size = page_size})) return;
      Arena arena(path.backend->device());
      Cache cache(arena, *path.backend, format, page_size, 64, std::vector<float>{0.5f}, std::vector<float>{1.0f});
      cache.poison();
      std::vector<std::vector<std::int32_t>> tables;
      std::vector<std::int32_t> starts = {0}, contexts;
      std::vector<float> queries;
      std::vector<double> want;
      std::int32_t next_page = 1;
      for (const LatentInput& in : inputs) {
        std::vector<std::int32_t> slots;
        std::vector<std::int32_t>& table = tables.emplace_back();
        for (std::int32_t j = 0; j < in.sizes.tokens; ++j) {
          if (j % page_size == 0) table.push_back(next_page++);
          slots.push_back(table.back() * page_size + j % page_size);
        }
        const std::vector<float> rows_of_one = arena.read(write_all(arena, cache, in, slots).values);
        queries.insert(queries.end(), rows_of_one.begin(), rows_of_one.end());
        want.insert(want.end(), in.want.begin(), in.want.end());
        starts.push_back(starts.back() + in.sizes.rows);
        contexts.push_back(in.sizes.tokens);
      }
      cache.set_table(tables);
      const DType result = path.processor ? DType::f32 : DType::bf16;
      const Query query{arena.floats(queries, {starts.back(), 20, 96}, result), Tensor()};
      const Tensor out =
          attend(arena, *path.backend, cache, query, starts, contexts, {.scale = kScale, .sinks = {}}, result);
      expect_close(describe(format), arena.read(out), want, 64, path.processor ? kLatentBound : kLatentBoundInBfloat,
                   result);
    });
  }
}

// One latent attention in both of its forms: keys and values of every head made from the latents, or queries turned
// into the latents' space and results turned out of it.
class BothForms {
 public:
  static constexpr LatentSizes kSizes = {};
  static constexpr std::int32_t kNope = 16, kValue = 48, kUnit = kNope + kValue;

  BothForms(Arena& arena, Backend& backend) : arena_(arena), backend_(backend) {
    Random random(43);
    query_ = random.normals(kSizes.tokens * kSizes.heads * (kNope + kSizes.rope));
    latents_ = arena.floats(random.normals(kSizes.tokens * kSizes.latent), {kSizes.tokens, kSizes.latent});
    rope_keys_ = random.normals(kSizes.tokens * kSizes.rope);
    up_.parts.push_back({.values = arena.floats(random.normals(kSizes.heads * kUnit * kSizes.latent, 0.2f),
                                                {kSizes.heads * kUnit, kSizes.latent}),
                         .scale = {},
                         .input_scale = {}});
    up_.out = kSizes.heads * kUnit;
    up_.in = kSizes.latent;
  }

  std::vector<float> absorbed() {
    const Tensor q = arena_.floats(query_, {kSizes.tokens, kSizes.heads, kNope + kSizes.rope});
    const Tensor wide = arena_.blank({kSizes.tokens, kSizes.heads, kSizes.latent + kSizes.rope});
    backend_.ops().head_linear({.x = q.columns(0, kNope),
                                .weight = up_,
                                .unit = kUnit,
                                .first = 0,
                                .count = kNope,
                                .transposed = true,
                                .out = wide.columns(0, kSizes.latent)});
    const Tensor rows = q.reshaped({kSizes.tokens * kSizes.heads, kNope + kSizes.rope});
    backend_.ops().scale({.x = rows.columns(kNope, kSizes.rope),
                          .weight = {},
                          .factor = 1.0f,
                          .soft_cap = 0.0f,
                          .out = wide.reshaped({kSizes.tokens * kSizes.heads, kSizes.latent + kSizes.rope})
                                     .columns(kSizes.latent, kSizes.rope)});
    const Tensor mixed =
        attention(format_of(kSizes, {}, {}), wide, latents_.reshaped({kSizes.tokens, 1, kSizes.latent}),
                  arena_.floats(rope_keys_, {kSizes.tokens, 1, kSizes.rope}));
    const Tensor out = arena_.blank({kSizes.tokens, kSizes.heads, kValue});
    backend_.ops().head_linear(
        {.x = mixed, .weight = up_, .unit = kUnit, .first = kNope, .count = kValue, .transposed = false, .out = out});
    return arena_.read(out);
  }

  std::vector<float> expanded() {
    const Tensor up = arena_.blank({kSizes.tokens, kSizes.heads * kUnit});
    backend_.ops().linear({latents_, up_, Tensor(), up});
    const Tensor heads = up.split_last(kSizes.heads, kUnit);
    std::vector<float> keys;
    const std::vector<float> nope = arena_.read(up.reshaped({kSizes.tokens * kSizes.heads, kUnit}).columns(0, kNope));
    for (std::int32_t i = 0; i < kSizes.tokens * kSizes.heads; ++i) {
      keys.insert(keys.end(), nope.begin() + i * kNope, nope.begin() + (i + 1) * kNope);
      const auto token = i / kSizes.heads * kSizes.rope;
      keys.insert(keys.end(), rope_keys_.begin() + token, rope_keys_.begin() + token + kSizes.rope);
    }
    KvFormat format;
    format.num_segments = 2;
    format.segments[0] = {KvPart::key,       KvElem::f32,  KvGrain::none,
                          KvTransform::none, kSizes.heads, kNope + kSizes.rope};
    format.segments[1] = {KvPart::value, KvElem::f32, KvGrain::none, KvTransform::none, kSizes.heads, kValue};
    return arena_.read(attention(format, arena_.floats(query_, {kSizes.tokens, kSizes.heads, kNope + kSizes.rope}),
                                 arena_.floats(keys, {kSizes.tokens, kSizes.heads, kNope + kSizes.rope}),
                                 heads.columns(kNope, kValue)));
  }

 private:
  Tensor attention(const KvFormat& format, const Tensor& q, const Tensor& k, const Tensor& v) {
    const std::vector<float> ones(kSizes.heads, 1.0f);
    Cache cache(arena_, backend_, format, kSizes.page_size, kSizes.pages() + 1, ones, ones);
    cache.set_table({table_of(kSizes)});
    const Query query = cache.write(q, k, v, slots_of_tokens(kSizes));
    return attend(arena_, backend_, cache, query, std::vector<std::int32_t>{0, kSizes.tokens},
                  std::vector<std::int32_t>{kSizes.tokens}, {.scale = kScale, .sinks = {}}, DType::f32);
  }

  Arena& arena_;
  Backend& backend_;
  Weight up_;
  Tensor latents_;
  std::vector<float> query_, rope_keys_;
};

TEST(LatentAttention, ExpandedAndAbsorbedFormsAreEqual) {
  for_each_path([&](Path& path) {
    if (!path.backend->supports({.format = format_of({}, {}, {}), .q_heads = 5, .page_size = 16})) return;
    Arena arena(path.backend->device());
    BothForms forms(arena, *path.backend);
    const std::vector<float> expanded = forms.expanded();
    expect_close("forms", forms.absorbed(), std::vector<double>(expanded.begin(), expanded.end()), BothForms::kValue,
                 2e-5);
  });
}

}  // namespace
}  // namespace octavo::conformance
