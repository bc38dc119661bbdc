// expanded_attention: keys and values of every head made of the records of a latent cache, against the same in double;
// and which rows take that form.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/conformance/cache.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct ExpandedSequence {
  std::int32_t context = 0;
  std::int32_t length = 1;
};

// Decodes, which are not this form's, then chunks: whole prompts, ends of long ones, over several spans of the cache.
constexpr ExpandedSequence kStepSequences[] = {{30, 1}, {5, 1}, {41, 9}, {300, 70}, {20, 20}, {261, 2}};
constexpr std::int32_t kStepDecodes = 2;

struct ExpandedCase {
  KvFormat format;
  std::int32_t heads = 2, nope = 32, value = 48, page_size = 16;
  bool apart = false;  // W_UK turned and W_UV, matrices of their own
  DType compute = DType::f32;
  HostPart up = {};        // [heads * (nope + value), latent], or [heads * latent, nope]
  HostPart value_up = {};  // apart: [heads * value, latent]

  std::int32_t latent() const { return format.segments[0].width; }
  std::int32_t rope() const { return format.segments[1].width; }
};

struct ExpandedNumbers {
  std::vector<float> q;             // [tokens of the step, heads, nope + rope]
  std::vector<float> latent, rope;  // of all sequences, one after the other
};

ExpandedNumbers numbers_of(const ExpandedCase& c) {
  Random random(61);
  std::int32_t rows = 0, tokens = 0;
  for (const ExpandedSequence& s : kStepSequences) rows += s.length, tokens += s.context;
  ExpandedNumbers n;
  n.q = rounded(random.normals(rows * c.heads * (c.nope + c.rope()), 0.2f), c.compute);
  n.latent = rounded(random.normals(tokens * c.latent()), c.compute);
  n.rope = rounded(random.normals(tokens * c.rope(), 2.0f), c.compute);
  return n;
}

constexpr float kRuleScale = 0.3f;

// One head's key and value of a record.
void expand(const ExpandedCase& c, std::int32_t head, const std::vector<double>& latent, double* key, double* value) {
  const auto entry = [](const HostPart& part, std::int64_t row, std::int64_t column) {
    return part.values[static_cast<std::size_t>(row * part.in + column)];
  };
  const std::int64_t unit = c.nope + c.value;
  for (std::int64_t i = 0; i < c.latent(); ++i) {
    const double x = latent[static_cast<std::size_t>(i)];
    for (std::int64_t o = 0; o < c.nope; ++o)
      key[o] += x * (c.apart ? entry(c.up, head * c.latent() + i, o) : entry(c.up, head * unit + o, i));
    for (std::int64_t o = 0; o < c.value; ++o)
      value[o] += x * (c.apart ? entry(c.value_up, head * c.value + o, i) : entry(c.up, head * unit + c.nope + o, i));
  }
}

// The rows of chunks.
std::vector<double> reference(const ExpandedCase& c, const ExpandedNumbers& n) {
  const auto key_width = static_cast<std::size_t>(c.nope + c.rope());
  std::vector<double> want;
  std::int64_t first_token = 0, first_row = 0;
  for (const ExpandedSequence& s : kStepSequences) {
    std::vector<double> rows(static_cast<std::size_t>(s.length * c.heads * c.value));
    for (std::int32_t head = 0; head < c.heads && s.length > 1; ++head) {
      std::vector<std::vector<double>> keys, values;
      for (std::int64_t j = first_token; j < first_token + s.context; ++j) {
        const auto row = [j](const std::vector<float>& x, std::int32_t width) {
          return std::vector<float>(x.begin() + j * width, x.begin() + (j + 1) * width);
        };
        std::vector<double>& key = keys.emplace_back(static_cast<std::size_t>(c.nope), 0.0);
        std::vector<double>& value = values.emplace_back(static_cast<std::size_t>(c.value), 0.0);
        expand(c, head, cached(c.format.segments[0], 0.5f, row(n.latent, c.latent())).values, key.data(), value.data());
        const std::vector<double> turned = cached(c.format.segments[1], 1.0f, row(n.rope, c.rope())).values;
        key.insert(key.end(), turned.begin(), turned.end());
      }
      for (std::int32_t i = 0; i < s.length; ++i) {
        const float* q = n.q.data() + ((first_row + i) * c.heads + head) * static_cast<std::int64_t>(key_width);
        double* out = rows.data() + (i * c.heads + head) * c.value;
        double sum = 0.0;
        for (std::int32_t j = 0; j <= s.context - s.length + i; ++j) {
          double score = 0.0;
          for (std::size_t d = 0; d < key_width; ++d) score += keys[static_cast<std::size_t>(j)][d] * q[d];
          const double p = std::exp(kRuleScale * score);
          sum += p;
          for (std::int32_t d = 0; d < c.value; ++d)
            out[d] += p * values[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)];
        }
        for (std::int32_t d = 0; d < c.value; ++d) out[d] /= sum;
      }
    }
    if (s.length > 1) want.insert(want.end(), rows.begin(), rows.end());
    first_token += s.context;
    first_row += s.length;
  }
  return want;
}

BatchView batch_of(Arena& arena, const std::vector<std::int32_t>& starts, const std::vector<std::int32_t>& contexts,
                   std::int32_t decodes) {
  BatchView batch;
  batch.num_seqs = static_cast<std::int32_t>(contexts.size());
  batch.num_decodes = decodes;
  batch.num_tokens = starts.back();
  batch.query_start = arena.ints(starts, {batch.num_seqs + 1});
  batch.context = arena.ints(contexts, {batch.num_seqs});
  return batch;
}

// All sequences' tokens in the cache, queries of the step, and the verb; rows of chunks.
std::vector<float> expanded_on(Path& path, const ExpandedCase& c, const ExpandedNumbers& n) {
  Arena arena(path.backend->device());
  std::vector<std::vector<std::int32_t>> tables;
  std::vector<std::int32_t> slots, starts = {0}, contexts;
  std::int32_t next_page = 1;
  for (const ExpandedSequence& s : kStepSequences) {
    std::vector<std::int32_t>& table = tables.emplace_back();
    for (std::int32_t j = 0; j < s.context; ++j) {
      if (j % c.page_size == 0) table.push_back(next_page++);
      slots.push_back(table.back() * c.page_size + j % c.page_size);
    }
    starts.push_back(starts.back() + s.length);
    contexts.push_back(s.context);
  }
  Cache cache(arena, *path.backend, c.format, c.page_size, next_page, std::vector<float>{0.5f},
              std::vector<float>{1.0f});
  cache.poison(c.compute);
  cache.set_table(tables);
  const auto tokens = static_cast<std::int64_t>(slots.size());
  // Records without queries, as a step of chunks writes them.
  cache.write(arena.blank({0, c.heads, c.latent() + c.rope()}),
              arena.floats(n.latent, {tokens, 1, c.latent()}, c.compute),
              arena.floats(n.rope, {tokens, 1, c.rope()}, c.compute), slots);
  const BatchView batch = batch_of(arena, starts, contexts, kStepDecodes);
  const Weight up = upload(arena, {c.up});
  const Weight value_up = c.apart ? upload(arena, {c.value_up}) : Weight();
  const HeadRows key =
      c.apart ? HeadRows{up, c.latent(), 0, c.latent(), true} : HeadRows{up, c.nope + c.value, 0, c.nope};
  const HeadRows value =
      c.apart ? HeadRows{value_up, c.value, 0, c.value} : HeadRows{up, c.nope + c.value, c.nope, c.value};
  const Tensor out = arena.blank({batch.num_tokens, c.heads, c.value}, c.compute);
  path.backend->ops().expanded_attention(
      {.q = arena.floats(n.q, {batch.num_tokens, c.heads, c.nope + c.rope()}, c.compute),
       .first_row = kStepDecodes,
       .key = key,
       .value = value,
       .kv = cache.view(),
       .batch = batch,
       .rule = {.scale = kRuleScale, .sinks = {}},
       .out = out});
  for (const float before : arena.read(out.rows(0, kStepDecodes))) EXPECT_TRUE(std::isnan(before));
  return arena.read(out.rows(kStepDecodes, batch.num_tokens - kStepDecodes));
}

void expect_expanded(const ExpandedCase& c, const std::string& name) {
  const ExpandedNumbers n = numbers_of(c);
  const std::vector<double> want = reference(c, n);
  for_each_path([&](Path& path) {
    if (!path.processor) return;  // which has the absorbed form alone
    expect_close(describe(c.format) + " " + name, expanded_on(path, c, n), want, c.value, 2e-5, c.compute);
  });
}

KvFormat latent_of(KvElem latent, KvGrain latent_grain, KvElem rope, int latent_width, int rope_width) {
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::latent, latent, latent_grain, KvTransform::none, 1, latent_width};
  format.segments[1] = {KvPart::rope,      rope, is_8bit(rope) ? KvGrain::tensor : KvGrain::none,
                        KvTransform::none, 1,    rope_width};
  return format;
}

ExpandedCase with_weights(ExpandedCase c, DType dtype, ScaleGrain grain, Random& random) {
  if (c.apart) {
    c.up = make_part(dtype, grain, c.heads * c.latent(), c.nope, random);
    c.value_up = make_part(dtype, grain, c.heads * c.value, c.latent(), random);
  } else {
    c.up = make_part(dtype, grain, c.heads * (c.nope + c.value), c.latent(), random);
  }
  for (HostPart* part : {&c.up, &c.value_up})
    for (double& x : part->values) EXPECT_TRUE(std::isfinite(x));
  return c;
}

TEST(ExpandedAttention, KeysAndValuesAreMadeOfRecords) {
  Random random(62);
  const KvFormat formats[] = {latent_of(KvElem::f32, KvGrain::none, KvElem::f32, 160, 16),
                              latent_of(KvElem::bf16, KvGrain::none, KvElem::bf16, 160, 16),
                              latent_of(KvElem::e4m3, KvGrain::tensor, KvElem::e4m3, 160, 16),
                              latent_of(KvElem::e4m3, KvGrain::token_block, KvElem::bf16, 160, 16),
                              latent_of(KvElem::int8, KvGrain::token_head, KvElem::bf16, 160, 16)};
  for (const KvFormat& format : formats)
    expect_expanded(with_weights({.format = format}, DType::bf16, ScaleGrain::none, random), "bf16");
}

// Matrices of other kinds, whole and apart; small pages; activations in bf16; widths that tiles do not take.
TEST(ExpandedAttention, EveryMatrixAndPage) {
  Random random(63);
  const KvFormat blocks = latent_of(KvElem::e4m3, KvGrain::token_block, KvElem::bf16, 160, 16);
  for (const bool apart : {false, true}) {
    expect_expanded(with_weights({.format = blocks, .apart = apart}, DType::f32, ScaleGrain::none, random), "f32");
    expect_expanded(with_weights({.format = blocks, .apart = apart}, DType::e4m3, ScaleGrain::channel, random), "e4m3");
    expect_expanded(
        with_weights({.format = blocks, .page_size = 8, .apart = apart}, DType::q8_0, ScaleGrain::none, random),
        "q8_0, pages of 8");
  }
  expect_expanded(
      with_weights({.format = blocks, .page_size = 64, .compute = DType::bf16}, DType::bf16, ScaleGrain::none, random),
      "bf16 activations");
  expect_expanded(with_weights({.format = latent_of(KvElem::bf16, KvGrain::none, KvElem::bf16, 48, 8), .value = 24},
                               DType::bf16, ScaleGrain::none, random),
                  "odd widths");
}

std::int64_t absorbed_rows_on(Path& path, std::vector<ExpandedSequence> sequences, std::int32_t decodes) {
  Arena arena(path.backend->device());
  std::vector<std::int32_t> starts = {0}, contexts;
  for (const ExpandedSequence& s : sequences) {
    starts.push_back(starts.back() + s.length);
    contexts.push_back(s.context);
  }
  const BatchView batch = batch_of(arena, starts, contexts, decodes);
  const KvFormat format = latent_of(KvElem::bf16, KvGrain::none, KvElem::bf16, 512, 64);
  return path.backend->ops().absorbed_rows({.batch = batch, .format = format, .key_width = 128, .value_width = 128});
}

// With the published widths a record costs 131,072 products of a head, and a pair of query and key 768 less: from 171
// queries on making keys pays at any context, below at none but the queries' own.
TEST(ExpandedAttention, ChunksTakeItWhereItCostsLess) {
  for_each_path([](Path& path) {
    const bool chooses = path.processor && !path.deterministic;
    EXPECT_EQ(absorbed_rows_on(path, {{1000, 1}, {7, 1}}, 2), 2);
    EXPECT_EQ(absorbed_rows_on(path, {{1000, 1}, {64, 64}}, 1), chooses ? 1 : 65);
    EXPECT_EQ(absorbed_rows_on(path, {{100'000, 180}}, 0), chooses ? 0 : 180);
    EXPECT_EQ(absorbed_rows_on(path, {{100'000, 1}, {100'000, 160}}, 1), 161);
    EXPECT_EQ(absorbed_rows_on(path, {{100'000, 160}, {3000, 3000}}, 0), chooses ? 0 : 3160);
  });
}

}  // namespace
}  // namespace octavo::conformance
