// kv_write of a latent record: codes, scales and counters of every path bit for bit, and queries that stay as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/page_layout.h"
#include "tests/conformance/cache.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr int kRecordPageSize = 16;
constexpr int kRecordPages = 4;
constexpr std::int64_t kRecordQueryHeads = 5;
const std::vector<float> kLatentScale = {0.07f};
const std::vector<float> kRopeScale = {1.5f};

struct LatentRecords {
  KvFormat format;
  DType compute = DType::f32;
  std::int64_t queries = 0;  // rows; perhaps fewer than tokens
  std::vector<float> q, latent, rope;
  std::vector<std::int32_t> slots;
};

KvFormat record_format(KvElem latent, KvGrain grain, KvElem rope, int width, int rope_width) {
  const KvGrain rope_grain = is_8bit(rope) ? KvGrain::tensor : KvGrain::none;
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::latent, latent, grain, KvTransform::none, 1, width};
  format.segments[1] = {KvPart::rope, rope, rope_grain, KvTransform::none, 1, rope_width};
  return format;
}

// Rows of very different sizes; blocks of a row, too.
LatentRecords make_records(const KvFormat& format, DType compute, std::uint64_t seed) {
  Random random(seed);
  LatentRecords input{
      .format = format, .compute = compute, .queries = 0, .q = {}, .latent = {}, .rope = {}, .slots = {}};
  for (std::int32_t slot = kRecordPageSize; slot < kRecordPages * kRecordPageSize; slot += 1 + random.below(3))
    input.slots.push_back(slot);
  const auto tokens = static_cast<std::int64_t>(input.slots.size());
  const auto fill = [&](std::vector<float>& numbers, std::int64_t width) {
    float deviation = 1.0f;
    for (std::int64_t i = 0; i < tokens * width; ++i) {
      if (i % 16 == 0) deviation = std::ldexp(1.0f, random.below(20) - 12);
      numbers.push_back(random.normal() * deviation);
    }
    numbers = rounded(numbers, compute);
  };
  fill(input.latent, format.segments[0].width);
  fill(input.rope, format.segments[1].width);
  input.queries = tokens - 3;
  input.q = random.normals(input.queries * kRecordQueryHeads * (format.segments[0].width + format.segments[1].width));
  return input;
}

struct WrittenRecords {
  std::vector<std::byte> pages;
  KvCounters counters;
};

WrittenRecords write_records(Path& path, const LatentRecords& input) {
  Arena arena(path.backend->device());
  Cache cache(arena, *path.backend, input.format, kRecordPageSize, kRecordPages, kLatentScale, kRopeScale);
  const auto tokens = static_cast<std::int64_t>(input.slots.size());
  const std::int64_t width = input.format.segments[0].width;
  const std::int64_t rope = input.format.segments[1].width;
  const Query query = cache.write(arena.floats(input.q, {input.queries, kRecordQueryHeads, width + rope}),
                                  arena.floats(input.latent, {tokens, 1, width}, input.compute),
                                  arena.floats(input.rope, {tokens, 1, rope}, input.compute), input.slots);
  EXPECT_EQ(arena.read(query.values), input.q);
  return {cache.page_bytes(), cache.counters()};
}

// What the plain path writes is written by all of them.
WrittenRecords write_everywhere(const LatentRecords& input) {
  WrittenRecords plain;
  for_each_path([&](Path& path) {
    if (path.plain) plain = write_records(path, input);
  });
  EXPECT_FALSE(plain.pages.empty());
  for_each_path([&](Path& path) {
    if (!path.processor) return;  // it lays its pages out in another order
    const WrittenRecords written = write_records(path, input);
    EXPECT_TRUE(written.pages == plain.pages) << describe(input.format);
    EXPECT_EQ(written.counters.saturated, plain.counters.saturated);
    EXPECT_EQ(written.counters.written, plain.counters.written);
    EXPECT_EQ(written.counters.key_amax, plain.counters.key_amax);
    EXPECT_EQ(written.counters.value_amax, plain.counters.value_amax);
  });
  return plain;
}

void expect_latents(const LatentRecords& input, const WrittenRecords& written) {
  const KvSegment& kind = input.format.segments[0];
  const cpu::SegmentLayout layout = cpu::page_layout(input.format, kRecordPageSize).segments[0];
  std::uint64_t saturated = 0;
  auto at = input.latent.begin();
  for (const std::int32_t slot : input.slots) {
    const std::vector<float> row(at, at + kind.width);
    at += kind.width;
    const std::byte* page =
        written.pages.data() + slot / kRecordPageSize * bytes_per_page(input.format, kRecordPageSize);
    const ReferenceRow want = cached(kind, kLatentScale[0], row);
    std::vector<int> codes;
    for (int i = 0; i < kind.width; ++i)
      codes.push_back(static_cast<int>(page[layout.row(0, slot % kRecordPageSize) + i * layout.step]));
    EXPECT_EQ(codes, want.codes) << describe(input.format) << " slot " << slot;
    if (kind.grain != KvGrain::token_block) saturated += want.saturated;
    for (int begin = 0; kind.grain == KvGrain::token_block && begin < kind.width; begin += kScaleBlock) {
      float most = 0.0f, scale = 0.0f;
      for (int i = begin; i < std::min(begin + kScaleBlock, kind.width); ++i)
        most = std::max(most, std::fabs(row[static_cast<std::size_t>(i)]));
      std::memcpy(&scale, page + layout.scale(0, slot % kRecordPageSize) + begin / kScaleBlock * 4, sizeof scale);
      EXPECT_EQ(scale, most / (kind.elem == KvElem::e4m3 ? 448.0f : 57344.0f));
    }
  }
  const auto tokens = static_cast<std::uint64_t>(input.slots.size());
  EXPECT_EQ(written.counters.written, tokens * static_cast<std::uint64_t>(kind.width + input.format.segments[1].width));
  EXPECT_EQ(written.counters.saturated, saturated);
}

struct RecordCase {
  KvElem latent;
  KvGrain grain;
  KvElem rope;
};

TEST(LatentWrite, CodesScalesAndCountersBitForBit) {
  int i = 0;
  for (const RecordCase& c : {RecordCase{KvElem::e4m3, KvGrain::token_block, KvElem::bf16},
                              RecordCase{KvElem::e5m2, KvGrain::token_block, KvElem::f32},
                              RecordCase{KvElem::e4m3, KvGrain::tensor, KvElem::e5m2},
                              RecordCase{KvElem::int8, KvGrain::token_head, KvElem::bf16}})
    for (const int width : {512, 160, 24}) {
      const LatentRecords input =
          make_records(record_format(c.latent, c.grain, c.rope, width, width == 24 ? 8 : 64), DType::f32, 50 + i++);
      expect_latents(input, write_everywhere(input));
    }
}

TEST(LatentWrite, SixteenAndThirtyTwoBits) {
  for (const KvElem elem : {KvElem::f32, KvElem::bf16})
    for (const DType compute : {DType::f32, DType::bf16}) {
      const LatentRecords input = make_records(record_format(elem, KvGrain::none, KvElem::f32, 160, 16), compute, 60);
      const WrittenRecords written = write_everywhere(input);
      EXPECT_EQ(written.counters.saturated, 0u);
    }
}

// Blocks of zeros, of numbers too small for a scale, with infinities and with NaN of either sign.
TEST(LatentWrite, OddBlocks) {
  for (const KvElem elem : {KvElem::e4m3, KvElem::e5m2}) {
    LatentRecords input =
        make_records(record_format(elem, KvGrain::token_block, KvElem::bf16, 512, 64), DType::f32, 61);
    const auto block = [&](int token, int number) { return input.latent.begin() + token * 512 + number * 128; };
    std::fill_n(block(0, 0), 128, 0.0f);
    std::fill_n(block(0, 2), 128, 1e-42f);
    *block(1, 1) = kInfinity;
    *(block(1, 1) + 7) = -kInfinity;
    *(block(2, 3) + 5) = std::nanf("");
    std::fill_n(block(3, 0), 128, -0.0f);
    *(block(3, 0) + 9) = -std::nanf("");
    const WrittenRecords written = write_everywhere(input);
    EXPECT_EQ(written.counters.saturated, 2u) << "the infinities";
    const cpu::SegmentLayout layout = cpu::page_layout(input.format, kRecordPageSize).segments[0];
    const auto code = [&](std::size_t token, std::int64_t i) {
      const std::int32_t slot = input.slots[token];
      return static_cast<int>(
          written
              .pages[static_cast<std::size_t>(slot / kRecordPageSize * bytes_per_page(input.format, kRecordPageSize) +
                                              layout.row(0, slot % kRecordPageSize) + i)]);
    };
    EXPECT_EQ(code(0, 0), 0);
    EXPECT_EQ(code(0, 256), 0) << "too small to keep";
    EXPECT_EQ(code(1, 128), elem == KvElem::e4m3 ? 0x7E : 0x7B);
    EXPECT_EQ(code(1, 135), elem == KvElem::e4m3 ? 0xFE : 0xFB);
    EXPECT_EQ(code(2, 389), 0x7F);
    EXPECT_EQ(code(3, 9), 0x7F) << "beside zeros";
  }
}

}  // namespace
}  // namespace octavo::conformance
