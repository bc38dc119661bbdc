// Layers with a window keep the window: a prompt of 4,000 tokens through a pool of its pages alone, to the same logits
// as with all room.

#include <gtest/gtest.h>

#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

constexpr int kPrompt = 4000;
constexpr int kChunk = 64;
constexpr const char* kWindowed = "gptoss-mxfp4";  // window 16 in layers 0 and 2

EngineConfig window_config() {
  EngineConfig config = engine_config(*find(kWindowed));
  config.overrides.hf_overrides = {{"max_position_embeddings", 2 * kPrompt}};
  config.max_model_len = kPrompt + 96;
  config.max_num_batched_tokens = kChunk;
  config.page_size = 16;
  config.max_num_seqs = 1;
  return config;
}

std::vector<std::int32_t> long_prompt() {
  const std::vector<std::int32_t> text = load(*find(kWindowed)).ids.at("input_ids");
  std::vector<std::int32_t> ids;
  for (int i = 0; i < kPrompt; ++i)
    ids.push_back((text[static_cast<std::size_t>(i) % text.size()] + i / 96 * 7) % 500 + 3);
  return ids;
}

// 15 tokens before the first of a step and the step's 64, wherever page edges fall: 79 tokens touch 6 pages at most.
TEST(Window, ALongPromptHoldsThePagesOfItsWindow) {
  const std::vector<std::int32_t> ids = long_prompt();
  EngineConfig roomy = window_config();
  roomy.max_num_batched_tokens = 2048;
  const auto plenty = make_engine(roomy);
  const std::vector<float> expected = *plenty->logits(ids, std::nullopt, kPrompt - 8);

  for (const bool prefix_caching : {false, true}) {
    EngineConfig tight = window_config();
    tight.prefix_caching = prefix_caching;
    const auto engine = make_engine(tight);
    EXPECT_NE(engine->facts().capacity_derivation.find("window 16: 6 pages x"), std::string::npos)
        << engine->facts().capacity_derivation;
    const auto logits = engine->logits(ids, std::nullopt, kPrompt - 8);
    ASSERT_TRUE(logits) << logits.error().message();
    EXPECT_LT(relative_l2(*logits, expected), 1e-5);

    Request request;
    request.prompt = ids;
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 64;
    request.sampling.ignore_eos = true;
    auto stream = engine->submit(request);
    ASSERT_TRUE(stream) << stream.error().message();
    int tokens = 0;
    while (const auto event = (*stream)->next()) tokens += event->token ? 1 : 0;
    EXPECT_EQ(tokens, 64);
    EXPECT_EQ(engine->stats().preemptions, 0u);
  }
}

// Layers left out by their kind keep all bits: an 8-bit cache without windows loses less, and without any layer
// nothing.
TEST(Window, LayersAreLeftOutOfTheEightBitCacheByKind) {
  const Golden golden = load(*find(kWindowed));
  const std::vector<std::int32_t>& ids = golden.ids.at("input_ids");
  const auto logits = [&](const char* dtype, const std::vector<std::string>& skipped) {
    EngineConfig config = engine_config(golden.folder);
    config.kv_cache = *parse_kv_cache_dtype(dtype);
    config.skip_layers = skipped;
    return *make_engine(config)->logits(ids, std::nullopt);
  };
  const std::vector<float> exact = logits("auto", {});
  for (const char* dtype : {"fp8", "int8:fp8"}) {
    const double all = relative_l2(logits(dtype, {}), exact);
    const double full_alone = relative_l2(logits(dtype, {"sliding_window"}), exact);
    EXPECT_LT(full_alone, all) << dtype;
    EXPECT_GT(full_alone, 0) << dtype;
    EXPECT_EQ(logits(dtype, {"sliding_window", "1"}), exact) << dtype;
  }
}

}  // namespace
}  // namespace octavo::golden
