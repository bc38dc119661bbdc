#include "engine/cache_layout.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

LayerSpec layer(int window = 0) {
  LayerSpec spec;
  spec.kind = window > 0 ? "sliding_window" : "full_attention";
  spec.window = window;
  spec.q_heads = 8;
  spec.kv_heads = 2;
  spec.head_dim = 64;
  spec.value_dim = 64;
  return spec;
}

LayerSpec recurrent_layer() {
  LayerSpec spec;
  spec.kind = "linear_attention";
  spec.cache = CacheKind::state;
  spec.state_parts = {30, 100};
  return spec;
}

Result<CacheLayout> layout_of(const ModelSpec& spec, const char* dtype, std::vector<std::string> skip = {},
                              const std::vector<KvScales>& scales = {}) {
  return make_cache_layout(
      {.spec = spec, .choice = *parse_kv_cache_dtype(dtype), .skip_layers = std::move(skip), .scales = scales});
}

TEST(CacheLayout, EqualLayersAreFolded) {
  ModelSpec spec;
  spec.layers.assign(6, layer());
  const auto layout = layout_of(spec, "fp8", {"0", "-1"});
  ASSERT_TRUE(layout) << layout.error().message();
  ASSERT_EQ(layout->report.size(), 3u);
  EXPECT_TRUE(layout->report[0].starts_with("layer 0 full_attention: K bfloat16 2x64")) << layout->report[0];
  EXPECT_TRUE(layout->report[0].ends_with("; 512 bytes a token")) << layout->report[0];
  EXPECT_TRUE(layout->report[1].starts_with("layers 1-4 full_attention: K fp8_e4m3 2x64")) << layout->report[1];
  EXPECT_TRUE(layout->report[1].ends_with("; scale 1.0 uncalibrated; 256 bytes a token")) << layout->report[1];
  EXPECT_TRUE(layout->report[2].starts_with("layer 5 ")) << layout->report[2];
  EXPECT_EQ(layout->groups.size(), 1u);  // formats may differ within a group: tables and prefix hits are shared
  EXPECT_EQ(layout->groups[0].layers.size(), 6u);
  EXPECT_EQ(layout->layer_shapes.size(), 2u);
  EXPECT_EQ(layout->num_uncalibrated, 4);
}

TEST(CacheLayout, WindowsHaveGroupsOfTheirOwnBehindTheFullOne) {
  ModelSpec spec;
  spec.layers = {layer(16), layer(), layer(16), layer(32)};
  const auto layout = layout_of(spec, "auto");
  ASSERT_TRUE(layout);
  ASSERT_EQ(layout->groups.size(), 3u);
  EXPECT_EQ(layout->groups[0].lifetime, Lifetime::full);
  EXPECT_EQ(layout->groups[1].window, 16);
  EXPECT_EQ(layout->groups[1].layers.size(), 2u);
  EXPECT_EQ(layout->groups[2].window, 32);
  EXPECT_EQ(layout->group_shapes[0].window, 0);
  EXPECT_EQ(layout->group_shapes[1].window, 16);
  EXPECT_TRUE(layout->report[0].starts_with("layer 0 sliding_window (window 16): ")) << layout->report[0];
}

TEST(CacheLayout, ScalesSayWhereTheyComeFrom) {
  ModelSpec spec;
  spec.layers.assign(2, layer());
  KvScales given;
  given.source = ScaleSource::checkpoint;
  given.key = given.value = {0.5f, 0.25f};
  given.per_head = true;
  const auto layout = layout_of(spec, "fp8", {}, {given, given});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->num_uncalibrated, 0);
  EXPECT_TRUE(layout->layers[0].per_head_scales);
  EXPECT_NE(layout->report[0].find("per KV head"), std::string::npos) << layout->report[0];
  EXPECT_NE(layout->report[0].find("; scale checkpoint;"), std::string::npos) << layout->report[0];
  const auto wide = layout_of(spec, "auto", {}, {given, given});
  EXPECT_EQ(wide->num_unused_scales, 2);
  EXPECT_EQ(wide->report[0].find("scale"), std::string::npos) << wide->report[0];
}

TEST(CacheLayout, ASharedCacheIsNotCountedTwice) {
  ModelSpec spec;
  spec.layers = {layer(), layer()};
  spec.layers[1].cache = CacheKind::shared;
  spec.layers[1].shared_with = 0;
  const auto layout = layout_of(spec, "auto");
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->groups[0].layers.size(), 1u);
  EXPECT_FALSE(layout->layers[1].has_cache);
  EXPECT_EQ(layout->report[1], "layer 1 full_attention: reads the cache of layer 0");
}

// A record is float32 whatever the cache's dtype, so these layers have none that could be skipped.
TEST(CacheLayout, StatesAreAGroupOfRecordsAfterAllOthers) {
  ModelSpec spec;
  spec.layers = {recurrent_layer(), layer(16), recurrent_layer(), layer()};
  const auto layout = layout_of(spec, "fp8");
  ASSERT_TRUE(layout) << layout.error().message();
  ASSERT_EQ(layout->groups.size(), 3u);
  EXPECT_EQ(layout->group_shapes.size(), 2u);
  EXPECT_EQ(layout->groups[0].lifetime, Lifetime::full);
  EXPECT_EQ(layout->groups[1].lifetime, Lifetime::window);
  EXPECT_EQ(layout->groups[2].lifetime, Lifetime::state);
  EXPECT_EQ(layout->groups[2].layers.size(), 2u);
  EXPECT_EQ(bytes_per_page(layout->groups[2], 64), 2 * 130 * 4);
  EXPECT_EQ(layout->layer_shapes.size(), 2u);
  EXPECT_EQ(layout->num_uncalibrated, 2);
  EXPECT_FALSE(layout->layers[0].has_cache);
  EXPECT_EQ(layout->report[0], "layer 0 linear_attention: float32 state of 520 bytes a sequence");
  for (const char* skipped : {"linear_attention", "0", "2"}) EXPECT_FALSE(layout_of(spec, "fp8", {skipped})) << skipped;
  EXPECT_TRUE(layout_of(spec, "fp8", {"full_attention"}));
}

TEST(CacheLayout, WhatCannotBeIsRefused) {
  ModelSpec spec;
  EXPECT_EQ(layout_of(spec, "auto").error().message(), "the model has no layer that keeps a cache");
  spec.layers.assign(2, layer());
  EXPECT_FALSE(layout_of(spec, "fp8", {"7"}));
  spec.layers.assign(2, recurrent_layer());
  EXPECT_EQ(layout_of(spec, "auto").error().message(), "the model has no layer that keeps a cache");
}

TEST(CacheLayout, ALatentIsOneRecordForAllHeads) {
  ModelSpec spec;
  spec.layers.assign(2, layer());
  for (LayerSpec& layer : spec.layers) {
    layer.cache = CacheKind::latent;
    layer.latent_dim = 512;
    layer.head_dim = 64;
    layer.kv_heads = 1;
    layer.q_heads = 16;
  }
  EXPECT_EQ(layout_of(spec, "auto")->report[0],
            "layers 0-1 full_attention: latent bfloat16 1x512 | rope bfloat16 1x64; 1152 bytes a token");
  const auto blocks = layout_of(spec, "fp8");
  EXPECT_EQ(
      blocks->report[0],
      "layers 0-1 full_attention: latent fp8_e4m3 1x512 per token and 128 numbers | rope bfloat16 1x64; 656 bytes "
      "a token");
  EXPECT_EQ(blocks->num_uncalibrated, 0);
  KvScales given;
  given.source = ScaleSource::checkpoint;
  given.key = given.value = {0.5f};
  EXPECT_EQ(
      layout_of(spec, "fp8", {}, {given, given})->report[0],
      "layers 0-1 full_attention: latent fp8_e4m3 1x512 per tensor | rope bfloat16 1x64; scale checkpoint; 640 bytes "
      "a token");
  const auto skipped = layout_of(spec, "fp8", {"1"});
  EXPECT_EQ(bytes_per_token(skipped->groups[0]), 656 + 1152);
  EXPECT_NE(layout_of(spec, "int8:fp8").error().message().find("names two kinds, int8 and fp8_e4m3"),
            std::string::npos);
}

TEST(CacheLayout, AKindForRopeKeysIsRefusedWhereThereAreNone) {
  ModelSpec spec;
  spec.layers.assign(1, layer());
  KvCacheChoice choice;
  ASSERT_TRUE(parse_kv_rope_dtype("fp8", choice));
  const auto layout = make_cache_layout({.spec = spec, .choice = choice, .skip_layers = {}, .scales = {}});
  ASSERT_FALSE(layout);
  EXPECT_NE(layout.error().message().find("--kv-cache-rope-dtype"), std::string::npos);
}

}  // namespace
}  // namespace octavo
