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

constexpr std::int32_t kLatent = 160, kRope = 16, kLatentHeads = 5, kLatentTokens = 41, kLatentRows = 9,
                       kLatentPageSize = 16;
constexpr float kScale = 0.05f;

struct LatentKind {
  KvElem elem = KvElem::f32;
  KvGrain grain = KvGrain::none;
};
constexpr LatentKind kTensor{KvElem::e4m3, KvGrain::tensor}, kBlocks{KvElem::e4m3, KvGrain::token_block},
    kInt8{KvElem::int8, KvGrain::token_head};

KvFormat format_of(LatentKind latent, LatentKind rope) {
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::latent, latent.elem, latent.grain, KvTransform::none, 1, kLatent};
  format.segments[1] = {KvPart::rope, rope.elem, rope.grain, KvTransform::none, 1, kRope};
  return format;
}

// Slots of the pages 2, 1 and 3, in this order.
std::vector<std::int32_t> slots_of_tokens() {
  std::vector<std::int32_t> slots;
  for (std::int32_t j = 0; j < kLatentTokens; ++j)
    slots.push_back((j < 16 ? 2 : j < 32 ? 1 : 3) * kLatentPageSize + j % kLatentPageSize);
  return slots;
}

std::vector<double> reference(const KvFormat& format, const std::vector<float>& q, const std::vector<float>& latent,
                              const std::vector<float>& rope) {
  std::vector<std::vector<double>> keys;
  for (std::int32_t j = 0; j < kLatentTokens; ++j) {
    const auto row = [j](const std::vector<float>& x, std::int32_t n) {
      return std::vector<float>(x.begin() + j * n, x.begin() + (j + 1) * n);
    };
    std::vector<double>& key = keys.emplace_back(cached(format.segments[0], 0.5f, row(latent, kLatent)).values);
    const std::vector<double> turned = cached(format.segments[1], 1.0f, row(rope, kRope)).values;
    key.insert(key.end(), turned.begin(), turned.end());
  }
  std::vector<double> want;
  for (std::int32_t i = 0; i < kLatentRows * kLatentHeads; ++i) {
    std::vector<double> out(kLatent, 0.0);
    double sum = 0.0;
    for (std::int32_t j = 0; j <= kLatentTokens - kLatentRows + i / kLatentHeads; ++j) {
      const std::vector<double>& key = keys[static_cast<std::size_t>(j)];
      double score = 0.0;
      for (std::size_t d = 0; d < key.size(); ++d) score += key[d] * q[static_cast<std::size_t>(i) * key.size() + d];
      const double p = std::exp(kScale * score);
      sum += p;
      for (std::size_t d = 0; d < kLatent; ++d) out[d] += p * key[d];
    }
    for (const double x : out) want.push_back(x / sum);
  }
  return want;
}

TEST(LatentAttention, KeysAreLatentAndRopeValuesAreLatent) {
  for (const auto& [latent_kind, rope_kind] : {std::pair{LatentKind{}, LatentKind{}},
                                               {LatentKind{KvElem::bf16}, LatentKind{KvElem::bf16}},
                                               {kTensor, LatentKind{KvElem::bf16}},
                                               {kTensor, kTensor},
                                               {kBlocks, LatentKind{KvElem::bf16}},
                                               {kBlocks, kBlocks},
                                               {kInt8, LatentKind{KvElem::bf16}}}) {
    const KvFormat format = format_of(latent_kind, rope_kind);
    Random random(41);
    const std::vector<float> q = random.normals(kLatentRows * kLatentHeads * (kLatent + kRope));
    const std::vector<float> latent = random.normals(kLatentTokens * kLatent, 3.0f);
    const std::vector<float> rope = random.normals(kLatentTokens * kRope, 3.0f);
    const std::vector<double> want = reference(format, q, latent, rope);
    for_each_path([&](Path& path) {
      if (!path.backend->supports({.format = format, .q_heads = kLatentHeads, .page_size = kLatentPageSize})) return;
      Arena arena(path.backend->device());
      Cache cache(arena, *path.backend, format, kLatentPageSize, 4, std::vector<float>{0.5f}, std::vector<float>{1.0f});
      cache.poison();
      cache.set_table({{2, 1, 3}});
      const std::vector<std::int32_t> slots = slots_of_tokens();
      // Queries of the tokens before the step are never read.
      std::vector<float> all(static_cast<std::size_t>((kLatentTokens - kLatentRows) * kLatentHeads * (kLatent + kRope)),
                             std::nanf(""));
      all.insert(all.end(), q.begin(), q.end());
      Query query = cache.write(arena.floats(all, {kLatentTokens, kLatentHeads, kLatent + kRope}),
                                arena.floats(latent, {kLatentTokens, 1, kLatent}),
                                arena.floats(rope, {kLatentTokens, 1, kRope}), slots);
      if (format.segments[0].grain == KvGrain::token_block) {
        EXPECT_EQ(cache.counters().saturated, 0u) << describe(format);
      }
      query.values = query.values.rows(kLatentTokens - kLatentRows, kLatentRows);
      if (!query.scale.empty()) query.scale = query.scale.rows(kLatentTokens - kLatentRows, kLatentRows);
      const Tensor out = attend(arena, *path.backend, cache, query, std::vector<std::int32_t>{0, kLatentRows},
                                std::vector<std::int32_t>{kLatentTokens}, {.scale = kScale, .sinks = {}}, DType::f32);
      expect_close(describe(format), arena.read(out), want, kLatent, path.processor ? 2e-5 : 6e-2);
    });
  }
}

// One latent attention in both of its forms: keys and values of every head made from the latents, or queries turned
// into the latents' space and results turned out of it.
class BothForms {
 public:
  static constexpr std::int32_t kNope = 16, kValue = 48, kUnit = kNope + kValue;

  BothForms(Arena& arena, Backend& backend) : arena_(arena), backend_(backend) {
    Random random(43);
    query_ = random.normals(kLatentTokens * kLatentHeads * (kNope + kRope));
    latents_ = arena.floats(random.normals(kLatentTokens * kLatent), {kLatentTokens, kLatent});
    rope_keys_ = random.normals(kLatentTokens * kRope);
    up_.parts.push_back(
        {.values = arena.floats(random.normals(kLatentHeads * kUnit * kLatent, 0.2f), {kLatentHeads * kUnit, kLatent}),
         .scale = {},
         .input_scale = {}});
    up_.out = kLatentHeads * kUnit;
    up_.in = kLatent;
  }

  std::vector<float> absorbed() {
    const Tensor q = arena_.floats(query_, {kLatentTokens, kLatentHeads, kNope + kRope});
    const Tensor wide = arena_.blank({kLatentTokens, kLatentHeads, kLatent + kRope});
    backend_.ops().head_linear({.x = q.columns(0, kNope),
                                .weight = up_,
                                .unit = kUnit,
                                .first = 0,
                                .count = kNope,
                                .transposed = true,
                                .out = wide.columns(0, kLatent)});
    const Tensor rows = q.reshaped({kLatentTokens * kLatentHeads, kNope + kRope});
    backend_.ops().scale(
        {.x = rows.columns(kNope, kRope),
         .weight = {},
         .factor = 1.0f,
         .soft_cap = 0.0f,
         .out = wide.reshaped({kLatentTokens * kLatentHeads, kLatent + kRope}).columns(kLatent, kRope)});
    const Tensor mixed = attention(format_of({}, {}), wide, latents_.reshaped({kLatentTokens, 1, kLatent}),
                                   arena_.floats(rope_keys_, {kLatentTokens, 1, kRope}));
    const Tensor out = arena_.blank({kLatentTokens, kLatentHeads, kValue});
    backend_.ops().head_linear(
        {.x = mixed, .weight = up_, .unit = kUnit, .first = kNope, .count = kValue, .transposed = false, .out = out});
    return arena_.read(out);
  }

  std::vector<float> expanded() {
    const Tensor up = arena_.blank({kLatentTokens, kLatentHeads * kUnit});
    backend_.ops().linear({latents_, up_, Tensor(), up});
    const Tensor heads = up.split_last(kLatentHeads, kUnit);
    std::vector<float> keys;
    const std::vector<float> nope = arena_.read(up.reshaped({kLatentTokens * kLatentHeads, kUnit}).columns(0, kNope));
    for (std::int32_t i = 0; i < kLatentTokens * kLatentHeads; ++i) {
      keys.insert(keys.end(), nope.begin() + i * kNope, nope.begin() + (i + 1) * kNope);
      const auto token = i / kLatentHeads * kRope;
      keys.insert(keys.end(), rope_keys_.begin() + token, rope_keys_.begin() + token + kRope);
    }
    KvFormat format;
    format.num_segments = 2;
    format.segments[0] = {KvPart::key, KvElem::f32, KvGrain::none, KvTransform::none, kLatentHeads, kNope + kRope};
    format.segments[1] = {KvPart::value, KvElem::f32, KvGrain::none, KvTransform::none, kLatentHeads, kValue};
    return arena_.read(attention(format, arena_.floats(query_, {kLatentTokens, kLatentHeads, kNope + kRope}),
                                 arena_.floats(keys, {kLatentTokens, kLatentHeads, kNope + kRope}),
                                 heads.columns(kNope, kValue)));
  }

 private:
  Tensor attention(const KvFormat& format, const Tensor& q, const Tensor& k, const Tensor& v) {
    const std::vector<float> ones(kLatentHeads, 1.0f);
    Cache cache(arena_, backend_, format, kLatentPageSize, 4, ones, ones);
    cache.set_table({{2, 1, 3}});
    const Query query = cache.write(q, k, v, slots_of_tokens());
    return attend(arena_, backend_, cache, query, std::vector<std::int32_t>{0, kLatentTokens},
                  std::vector<std::int32_t>{kLatentTokens}, {.scale = kScale, .sinks = {}}, DType::f32);
  }

  Arena& arena_;
  Backend& backend_;
  Weight up_;
  Tensor latents_;
  std::vector<float> query_, rope_keys_;
};

TEST(LatentAttention, ExpandedAndAbsorbedFormsAreEqual) {
  for_each_path([&](Path& path) {
    if (!path.backend->supports({.format = format_of({}, {}), .q_heads = kLatentHeads, .page_size = kLatentPageSize}))
      return;
    Arena arena(path.backend->device());
    BothForms forms(arena, *path.backend);
    const std::vector<float> expanded = forms.expanded();
    expect_close("forms", forms.absorbed(), std::vector<double>(expanded.begin(), expanded.end()), BothForms::kValue,
                 2e-5);
  });
}

}  // namespace
}  // namespace octavo::conformance
