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

constexpr std::int32_t kLatent = 64, kRope = 16, kHeads = 5, kTokens = 41, kRows = 9, kLatentPageSize = 16;
constexpr float kScale = 0.05f;

KvFormat format_of(KvElem latent, KvElem rope) {
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::latent,    latent, is_8bit(latent) ? KvGrain::tensor : KvGrain::none,
                        KvTransform::none, 1,      kLatent};
  format.segments[1] = {KvPart::rope, rope, KvGrain::none, KvTransform::none, 1, kRope};
  return format;
}

std::vector<double> reference(const KvFormat& format, const std::vector<float>& q, const std::vector<float>& latent,
                              const std::vector<float>& rope) {
  std::vector<std::vector<double>> keys;
  for (std::int32_t j = 0; j < kTokens; ++j) {
    const auto row = [j](const std::vector<float>& x, std::int32_t n) {
      return std::vector<float>(x.begin() + j * n, x.begin() + (j + 1) * n);
    };
    std::vector<double>& key = keys.emplace_back(cached(format.segments[0], 0.5f, row(latent, kLatent)).values);
    const std::vector<double> turned = cached(format.segments[1], 1.0f, row(rope, kRope)).values;
    key.insert(key.end(), turned.begin(), turned.end());
  }
  std::vector<double> want;
  for (std::int32_t i = 0; i < kRows * kHeads; ++i) {
    std::vector<double> out(kLatent, 0.0);
    double sum = 0.0;
    for (std::int32_t j = 0; j <= kTokens - kRows + i / kHeads; ++j) {
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
  for (const auto& [latent_kind, rope_kind] :
       {std::pair{KvElem::f32, KvElem::f32}, {KvElem::bf16, KvElem::bf16}, {KvElem::e4m3, KvElem::bf16}}) {
    const KvFormat format = format_of(latent_kind, rope_kind);
    Random random(41);
    const std::vector<float> q = random.normals(kRows * kHeads * (kLatent + kRope));
    const std::vector<float> latent = random.normals(kTokens * kLatent, 3.0f);
    const std::vector<float> rope = random.normals(kTokens * kRope, 3.0f);
    const std::vector<double> want = reference(format, q, latent, rope);
    for_each_path([&](Path& path) {
      if (!path.backend->supports({.format = format, .q_heads = kHeads, .page_size = kLatentPageSize})) return;
      Arena arena(path.backend->device());
      Cache cache(arena, *path.backend, format, kLatentPageSize, 4, std::vector<float>{0.5f}, std::vector<float>{1.0f});
      cache.poison();
      cache.set_table({{2, 1, 3}});
      std::vector<std::int32_t> slots;
      for (std::int32_t j = 0; j < kTokens; ++j)
        slots.push_back((j < 16 ? 2 : j < 32 ? 1 : 3) * kLatentPageSize + j % kLatentPageSize);
      // Queries of the tokens before the step are never read.
      std::vector<float> all(static_cast<std::size_t>((kTokens - kRows) * kHeads * (kLatent + kRope)), std::nanf(""));
      all.insert(all.end(), q.begin(), q.end());
      Query query =
          cache.write(arena.floats(all, {kTokens, kHeads, kLatent + kRope}),
                      arena.floats(latent, {kTokens, 1, kLatent}), arena.floats(rope, {kTokens, 1, kRope}), slots);
      query.values = query.values.rows(kTokens - kRows, kRows);
      if (!query.scale.empty()) query.scale = query.scale.rows(kTokens - kRows, kRows);
      const Tensor out = attend(arena, *path.backend, cache, query, std::vector<std::int32_t>{0, kRows},
                                std::vector<std::int32_t>{kTokens}, {.scale = kScale, .sinks = {}}, DType::f32);
      expect_close(describe(format), arena.read(out), want, kLatent, path.processor ? 2e-5 : 6e-2);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
