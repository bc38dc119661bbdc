// kv_write of many tokens in one call, for which a wing may have a way of its own: the bytes of the cache, the queries
// and the counters are those of the same tokens given a few at a time, and queries are turned as sines and cosines in
// double say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/conformance/cache.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr std::int64_t kQueryHeads = 34, kKeyHeads = 3;  // no multiples of what a block or a warp takes
constexpr std::int64_t kFew = 40;
constexpr std::int32_t kFirstSlot = 5;  // of the first page: pieces of V begin in their middle
constexpr float kFactor = 1.25f;
const std::vector<float> kScales = {0.03f, 1.0f, 11.0f};

KvFormat format_of(KvElem key, KvElem value, int width) {
  const auto grain = [](KvElem elem) {
    return elem == KvElem::int8 ? KvGrain::token_head : is_8bit(elem) ? KvGrain::head : KvGrain::none;
  };
  KvFormat format;
  format.num_segments = 2;
  const KvTransform transform = is_8bit(key) ? KvTransform::hadamard : KvTransform::none;
  format.segments[0] = {KvPart::key, key, grain(key), transform, kKeyHeads, width};
  format.segments[1] = {KvPart::value, value, grain(value), KvTransform::none, kKeyHeads, width};
  return format;
}

// What one projection leaves of a prompt.
struct Prompt {
  std::int64_t tokens = 0, width = 0;
  std::vector<float> rows;  // [tokens, heads of q, k and v, width], exact in bfloat16
  std::vector<float> inv_freq;
  std::vector<std::int32_t> positions, slots;
};

Prompt make_prompt(std::int64_t tokens, std::int64_t width, std::int32_t page_size) {
  Random random(17);
  Prompt prompt{.tokens = tokens, .width = width, .rows = {}, .inv_freq = {}, .positions = {}, .slots = {}};
  prompt.rows = rounded(random.normals(tokens * (kQueryHeads + 2 * kKeyHeads) * width, 3.0f), DType::bf16);
  for (std::int64_t i = 0; i < width / 2; ++i)
    prompt.inv_freq.push_back(std::pow(500000.0f, -static_cast<float>(2 * i) / static_cast<float>(width)));
  for (std::int64_t t = 0; t < tokens; ++t) {
    prompt.positions.push_back(static_cast<std::int32_t>(130 * t));  // up to where sines need all of an angle's digits
    prompt.slots.push_back(page_size + kFirstSlot + static_cast<std::int32_t>(t));
  }
  return prompt;
}

struct StoredPrompt {
  std::vector<std::byte> pages;
  std::vector<float> queries;
  KvCounters counters;
};

StoredPrompt write(Path& path, const KvFormat& format, const Prompt& prompt, std::int32_t page_size,
                   std::int64_t at_once) {
  Arena arena(path.backend->device());
  const std::int64_t w = prompt.width, tokens = prompt.tokens;
  const auto pages = static_cast<int>((kFirstSlot + tokens) / page_size + 2);
  Cache cache(arena, *path.backend, format, page_size, pages, kScales, kScales);
  const Tensor all = arena.floats(prompt.rows, {tokens, (kQueryHeads + 2 * kKeyHeads) * w}, DType::bf16);
  const Tensor positions = arena.ints(prompt.positions, {tokens}), slots = arena.ints(prompt.slots, {tokens});
  const RopeRule rope{.inv_freq = arena.floats(prompt.inv_freq, {w / 2}), .factor = kFactor};
  const Query query = cache.blank_query(tokens, kQueryHeads, w);
  for (std::int64_t first = 0; first < tokens; first += at_once) {
    const std::int64_t count = std::min(at_once, tokens - first);
    const auto heads = [&](std::int64_t head, std::int64_t n) {
      return all.rows(first, count).columns(head * w, n * w).split_last(n, w);
    };
    path.backend->ops().kv_write(
        {.q = heads(0, kQueryHeads),
         .k = heads(kQueryHeads, kKeyHeads),
         .v = heads(kQueryHeads + kKeyHeads, kKeyHeads),
         .rope = rope,
         .positions = positions.rows(first, count),
         .slots = slots.rows(first, count),
         .kv = cache.view(),
         .query = {query.values.rows(first, count), query.scale.empty() ? Tensor() : query.scale.rows(first, count)}});
  }
  return {cache.page_bytes(), arena.read(query.values), cache.counters()};
}

std::vector<double> turned_queries(const Prompt& prompt) {
  std::vector<double> want;
  const auto half = static_cast<std::size_t>(prompt.width / 2);
  for (std::int64_t t = 0; t < prompt.tokens; ++t)
    for (std::int64_t head = 0; head < kQueryHeads; ++head) {
      const float* x = prompt.rows.data() + (t * (kQueryHeads + 2 * kKeyHeads) + head) * prompt.width;
      std::vector<double> row(2 * half);
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = static_cast<float>(prompt.positions[static_cast<std::size_t>(t)]) * prompt.inv_freq[i];
        const double cosine = double{kFactor} * std::cos(angle), sine = double{kFactor} * std::sin(angle);
        row[i] = x[i] * cosine - x[half + i] * sine;
        row[half + i] = x[half + i] * cosine + x[i] * sine;
      }
      want.insert(want.end(), row.begin(), row.end());
    }
  return want;
}

void run(KvElem key, KvElem value, int width) {
  const KvFormat format = format_of(key, value, width);
  for_each_path([&](Path& path) {
    const std::int32_t page_size = path.processor ? 16 : 64;
    const Prompt prompt = make_prompt(path.processor ? 44 : 1030, width, page_size);
    const StoredPrompt together = write(path, format, prompt, page_size, prompt.tokens);
    const StoredPrompt apart = write(path, format, prompt, page_size, kFew);
    const std::string what = describe(format) + " of width " + std::to_string(width);
    EXPECT_TRUE(together.pages == apart.pages) << what;
    EXPECT_TRUE(together.queries == apart.queries) << what;
    EXPECT_EQ(together.counters.saturated, apart.counters.saturated) << what;
    EXPECT_EQ(together.counters.written, apart.counters.written) << what;
    EXPECT_EQ(together.counters.key_amax, apart.counters.key_amax) << what;
    EXPECT_EQ(together.counters.value_amax, apart.counters.value_amax) << what;
    if (!is_8bit(key))
      expect_close("queries, " + what, together.queries, turned_queries(prompt), width, 3e-6,
                   path.processor ? DType::f32 : DType::bf16);
  });
}

TEST(KvWriteTogether, ManyTokensAreWrittenAsAFewAre) {
  for (const int width : {64, 128, 256}) {
    run(KvElem::bf16, KvElem::bf16, width);
    run(KvElem::e4m3, KvElem::e4m3, width);
    run(KvElem::int8, KvElem::e4m3, width);
    run(KvElem::e5m2, KvElem::int8, width);
  }
}

}  // namespace
}  // namespace octavo::conformance
