#include "kv/format.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/strings.h"
#include "kv/group.h"
#include "kv/scales.h"

namespace octavo {
namespace {

KvFormat made(std::string_view dtype, int heads, int width, TransformChoice transform = TransformChoice::automatic,
              bool per_head = false) {
  KvCacheChoice choice = parse_kv_cache_dtype(dtype).value();
  choice.transform = transform;
  return grouped_format(choice, KvElem::bf16, heads, width, per_head).value();
}

TEST(KvCacheDtype, NamesAndPairs) {
  EXPECT_TRUE(parse_kv_cache_dtype("auto").value().automatic);
  const auto elems = [](std::string_view text) {
    const KvCacheChoice choice = parse_kv_cache_dtype(text).value();
    EXPECT_FALSE(choice.automatic);
    return std::pair(choice.key, choice.value);
  };
  EXPECT_EQ(elems("fp8"), std::pair(KvElem::e4m3, KvElem::e4m3));
  EXPECT_EQ(elems("fp8_e4m3"), std::pair(KvElem::e4m3, KvElem::e4m3));
  EXPECT_EQ(elems("fp8_e5m2"), std::pair(KvElem::e5m2, KvElem::e5m2));
  EXPECT_EQ(elems("bf16"), std::pair(KvElem::bf16, KvElem::bf16));
  EXPECT_EQ(elems("bfloat16"), std::pair(KvElem::bf16, KvElem::bf16));
  EXPECT_EQ(elems("float32"), std::pair(KvElem::f32, KvElem::f32));
  EXPECT_EQ(elems("int8:fp8"), std::pair(KvElem::int8, KvElem::e4m3));
  EXPECT_EQ(elems("bfloat16:int8"), std::pair(KvElem::bf16, KvElem::int8));
}

TEST(KvCacheDtype, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"", "fp16", "FP8", "int4", "fp8:", ":fp8", "auto:fp8", "fp8:auto", "fp8:int8:fp8", " fp8", "fp8\n"}) {
    const auto choice = parse_kv_cache_dtype(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_NE(choice.error().message().find("fp8_e5m2"), std::string::npos) << "the message lists what is accepted";
  }
}

TEST(LatentFormat, OneKindForTheLatentAndSixteenBitsForRope) {
  const auto latent = [](std::string_view dtype, std::string_view rope, bool given, KvElem compute = KvElem::bf16) {
    KvCacheChoice choice = parse_kv_cache_dtype(dtype).value();
    EXPECT_TRUE(parse_kv_rope_dtype(rope, choice));
    return latent_format(choice, compute, 512, 64, given).value();
  };
  EXPECT_EQ(describe(latent("auto", "auto", false)), "latent bfloat16 1x512 | rope bfloat16 1x64");
  EXPECT_EQ(describe(latent("auto", "auto", false, KvElem::f32)), "latent float32 1x512 | rope float32 1x64");
  EXPECT_EQ(describe(latent("fp8", "auto", true, KvElem::f32)),
            "latent fp8_e4m3 1x512 per tensor | rope bfloat16 1x64");
  EXPECT_EQ(describe(latent("fp8", "fp8", false)),
            "latent fp8_e4m3 1x512 per token and 128 numbers | rope fp8_e4m3 1x64 per token and 128 numbers");
  EXPECT_EQ(describe(latent("int8", "auto", false)), "latent int8 1x512 per token and head | rope bfloat16 1x64");
  // 512 codes, four float32 scales, 64 numbers of 16 bits: the layout in common use.
  EXPECT_EQ(bytes_per_token(latent("fp8", "auto", false)), 656);
  EXPECT_EQ(bytes_per_token(latent("fp8", "auto", true)), 640);
  EXPECT_EQ(bytes_per_token(latent("auto", "auto", false)), 1152);
  EXPECT_EQ(bytes_per_token(latent("int8", "fp8", false)), 512 + 2 + 64 + 4);
}

TEST(LatentFormat, RefusesPairsRotationsAndKindsThatNeedAScale) {
  EXPECT_FALSE(latent_format(parse_kv_cache_dtype("int8:fp8").value(), KvElem::bf16, 512, 64, false));
  KvCacheChoice turned = parse_kv_cache_dtype("fp8").value();
  turned.transform = TransformChoice::hadamard;
  EXPECT_FALSE(latent_format(turned, KvElem::bf16, 512, 64, false));
  KvCacheChoice choice;
  for (const char* text : {"int8", "fp16", "", "fp8:fp8"}) EXPECT_FALSE(parse_kv_rope_dtype(text, choice)) << text;
}

TEST(GroupedFormat, AutomaticIsTheComputeKind) {
  const KvFormat f32 = grouped_format({}, KvElem::f32, 2, 64, true).value();
  EXPECT_EQ(describe(f32), "K float32 2x64 | V float32 2x64");
  EXPECT_EQ(describe(made("auto", 8, 128)), "K bfloat16 8x128 | V bfloat16 8x128");
}

TEST(GroupedFormat, RotatesEveryEightBitKeyThatCanBeTurned) {
  EXPECT_EQ(describe(made("fp8", 8, 128)), "K fp8_e4m3 8x128 per tensor, hadamard | V fp8_e4m3 8x128 per tensor");
  EXPECT_EQ(describe(made("int8:fp8", 8, 96, TransformChoice::automatic, true)),
            "K int8 8x96 per token and head, hadamard | V fp8_e4m3 8x96 per KV head");
  EXPECT_EQ(describe(made("int8", 2, 34)), "K int8 2x34 per token and head | V int8 2x34 per token and head");
  EXPECT_EQ(describe(made("fp8_e5m2", 1, 256, TransformChoice::none)),
            "K fp8_e5m2 1x256 per tensor | V fp8_e5m2 1x256 per tensor");
  EXPECT_EQ(describe(made("bf16:fp8", 1, 64)), "K bfloat16 1x64 | V fp8_e4m3 1x64 per tensor");
}

TEST(GroupedFormat, RefusesARotationThatCannotBe) {
  KvCacheChoice choice = parse_kv_cache_dtype("fp8").value();
  choice.transform = TransformChoice::hadamard;
  EXPECT_TRUE(grouped_format(choice, KvElem::bf16, 8, 128, false));
  EXPECT_NE(grouped_format(choice, KvElem::bf16, 8, 34, false).error().message().find("heads of 34"),
            std::string::npos);
  choice.key = KvElem::bf16;
  EXPECT_NE(grouped_format(choice, KvElem::bf16, 8, 128, false).error().message().find("K is kept as bfloat16"),
            std::string::npos);
  EXPECT_FALSE(grouped_format({}, KvElem::bf16, 0, 128, false));
  EXPECT_FALSE(grouped_format({}, KvElem::bf16, 8, -1, false));
}

TEST(KvFormat, BytesPerToken) {
  EXPECT_EQ(bytes_per_token(made("auto", 8, 128)), 4096);
  EXPECT_EQ(bytes_per_token(made("fp8", 8, 128)), 2048);
  EXPECT_EQ(bytes_per_token(made("int8:fp8", 8, 128)), 2064);
  EXPECT_EQ(bytes_per_token(made("int8", 8, 128)), 2080);
  EXPECT_EQ(bytes_per_token(made("auto", 3, 64)), 768);
  EXPECT_EQ(bytes_per_token(made("fp8", 1, 512)), 1024);
  EXPECT_EQ(bytes_per_page(made("int8:fp8", 8, 128), 64), 64 * 2064);
}

// The table of docs/kv-formats.md: | model | layers | heads x width | a layer: bf16, fp8, int8:fp8, int8 | all layers:
// likewise |
TEST(KvFormat, BytesPerTokenAreThoseOfTheDocument) {
  const std::string document = read_file(OCTAVO_SOURCE_DIR "/docs/kv-formats.md").value();
  int rows = 0;
  for (const std::string_view line : split(document, "\n")) {
    const auto cells = split(line, "|");
    if (!line.starts_with("| ") || cells.size() != 11 || line.find(" x ") == std::string_view::npos) continue;
    const auto number = [](std::string_view cell) {
      std::string digits(trim(cell));
      std::erase(digits, ',');
      const auto value = parse_int(digits);
      return value ? *value : -1;
    };
    const auto shape = split(cells[2], " x");
    if (shape.size() != 2 || number(shape[0]) < 0) continue;
    const int heads = static_cast<int>(number(shape[0])), width = static_cast<int>(number(shape[1]));
    std::size_t cell = 3;
    for (const char* dtype : {"bfloat16", "fp8", "int8:fp8", "int8"}) {
      const std::int64_t bytes = bytes_per_token(made(dtype, heads, width));
      EXPECT_EQ(number(cells[cell]), bytes) << line;
      EXPECT_EQ(number(cells[cell + 4]), bytes * number(cells[1])) << line;
      ++cell;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 15);
}

TEST(CacheGroup, BytesOfAllItsLayers) {
  CacheGroup group;
  for (int layer = 0; layer < 32; ++layer) group.layers.push_back({layer, made(layer == 0 ? "auto" : "fp8", 8, 128)});
  EXPECT_EQ(bytes_per_token(group), 4096 + 31 * 2048);
  EXPECT_EQ(bytes_per_page(group, 64), 64 * (4096 + 31 * 2048));
  CacheGroup state;
  state.lifetime = Lifetime::state;
  state.state_parts = {3 * 10240, 48 * 128 * 128};
  state.layers.resize(48);
  EXPECT_EQ(bytes_per_page(state, 64), 150994944 + 2 * 2949120) << "the convolution's tail is float32 too";
}

// The most pages that hold a visible or new token, over every alignment, by counting.
std::int64_t live_by_counting(std::int64_t window, std::int64_t num_tokens, std::int64_t page_size, std::int64_t step) {
  std::int64_t most = 0;
  for (std::int64_t length = 0; length < num_tokens; ++length) {
    const std::int64_t end = std::min(num_tokens, length + step);
    const std::int64_t first = std::max<std::int64_t>(0, length - window + 1) / page_size;
    most = std::max(most, (end - 1) / page_size - first + 1);
  }
  return most;
}

TEST(CacheGroup, LivePagesOfAWindow) {
  CacheGroup group;
  EXPECT_EQ(live_pages(group, 129, 64, 1), 3);
  EXPECT_EQ(live_pages(group, 0, 64, 8), 0);
  group.lifetime = Lifetime::window;
  for (const int window : {1, 2, 5, 8, 9, 16, 17}) {
    group.window = window;
    for (const int step : {1, 2, 7, 8, 9, 24})
      for (const std::int64_t tokens : {1, 7, 8, 9, 40, 200}) {
        const std::int64_t needed = live_by_counting(window, tokens, 8, step);
        const std::int64_t said = live_pages(group, tokens, 8, step);
        EXPECT_GE(said, needed) << window << " " << step << " " << tokens;
        EXPECT_TRUE(tokens < 200 || said == needed) << window << " " << step;
      }
  }
  group.lifetime = Lifetime::state;
  EXPECT_EQ(live_pages(group, 100000, 64, 512), 1);
}

TEST(KvScales, StoredScales) {
  KvScales scales;
  const KvFormat rotated = made("fp8", 2, 64);
  EXPECT_EQ(stored_scales(scales, rotated.segments[0]), (std::vector<float>{1.0f, 1.0f})) << "absent means 1.0";
  scales.key = {0.5f, 0.25f};
  scales.value = {2.0f, 3.0f};
  EXPECT_EQ(stored_scales(scales, rotated.segments[0]), (std::vector<float>{4.0f, 2.0f}));
  EXPECT_EQ(stored_scales(scales, rotated.segments[1]), scales.value);
  EXPECT_EQ(stored_scales(scales, made("fp8", 2, 64, TransformChoice::none).segments[0]), scales.key);
  EXPECT_TRUE(stored_scales(scales, made("int8", 2, 64).segments[0]).empty());
  EXPECT_TRUE(stored_scales(scales, made("auto", 2, 64).segments[0]).empty());
}

}  // namespace
}  // namespace octavo
