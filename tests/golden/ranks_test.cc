// Tensor parallel with ranks as threads: every golden that can be shared gives the reference's logits and text on 2 and
// 4 ranks, and with 8-bit caches what one rank gives.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/log.h"
#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

constexpr int kFirstRow = 64;  // of 96: prompts are computed whole, logits of the last third compared

class RankLogits : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    log::set_level(log::Level::error);
    if (const auto folder = find(GetParam())) golden_ = load(*folder);
  }
  EngineConfig config(int ranks, const char* cache = "auto") const {
    EngineConfig config = engine_config(golden_->folder);
    config.tensor_parallel = ranks;
    config.kv_cache = *parse_kv_cache_dtype(cache);
    config.max_num_batched_tokens = 40;  // two chunks and a part of one
    config.max_model_len = 128;
    return config;
  }
  std::vector<float> logits(Engine& engine, std::optional<int> decode_from = std::nullopt) const {
    auto logits = engine.logits(golden_->ids.at("input_ids"), decode_from, kFirstRow);
    EXPECT_TRUE(logits) << logits.error().message();
    return logits ? *std::move(logits) : std::vector<float>();
  }

  // As far as no two tokens are about as good.
  void expect_the_references_text(Engine& engine) const {
    const std::vector<float>& margin = golden_->floats.at("greedy_margin");
    Request request;
    request.prompt = golden_->ids.at("input_ids");
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 8;
    request.sampling.ignore_eos = true;
    auto stream = engine.submit(request);
    ASSERT_TRUE(stream) << stream.error().message();
    for (std::size_t step = 0; step < 8 && margin[step] >= 0.3f; ++step) {
      const auto event = (*stream)->next();
      ASSERT_TRUE(event && event->token) << "step " << step;
      EXPECT_EQ(*event->token, golden_->ids.at("greedy_ids")[step]) << "step " << step;
    }
  }

  std::optional<Golden> golden_;
};

// Goldens with fewer than four query or value heads, or with blocks of numbers that four ranks would cut through.
bool is_too_small_for_four(std::string_view name) {
  constexpr std::string_view kSmall[] = {
      "llama-rope3", "qwen3moe-fp8-block", "gptoss-mxfp4", "gemma4-base", "gemma4-hub", "mla-512",
      "kimi-hub",    "kimi-int4",          "qwen35-two",   "qwen35-base", "qwen35-hub"};
  return std::find(std::begin(kSmall), std::end(kSmall), name) != std::end(kSmall);
}

// The sentence names the ranks and what they do not divide, or the tensor and the block.
bool names_what_cannot_be_shared(const std::string& sentence) {
  return sentence.find("tensor parallel size 4 does not divide the model's ") != std::string::npos ||
         sentence.find("cuts through a block of 32") != std::string::npos;
}

TEST_P(RankLogits, AreTheReferencesOnTwoAndFour) {
  if (!golden_) return;
  const std::vector<float>& reference = golden_->floats.at("logits");
  for (const int ranks : {2, 4}) {
    const auto engine = Engine::create(config(ranks), cpu_factory());
    if (ranks == 4 && is_too_small_for_four(GetParam())) {
      ASSERT_FALSE(engine);
      EXPECT_TRUE(names_what_cannot_be_shared(engine.error().message())) << engine.error().message();
      continue;
    }
    ASSERT_TRUE(engine) << engine.error().message();
    EXPECT_LT(relative_l2(logits(**engine), reference), 5e-4) << ranks << " ranks";
    EXPECT_LT(relative_l2(logits(**engine, 80), reference), 5e-4) << ranks << " ranks, decoded";
    expect_the_references_text(**engine);
    EngineConfig bf16 = config(ranks);
    bf16.compute.reset();
    EXPECT_LT(relative_l2(logits(*make_engine(bf16)), reference), bfloat_bound(*golden_)) << ranks << " ranks";
  }
}

// A code of 8 bits that a rounding turns over moves a logit by more than float32 does; what one rank rounds the others
// round alike, so most numbers are the same.
TEST_P(RankLogits, OfEightBitCachesAreThoseOfOneRank) {
  if (!golden_) return;
  const int ranks = is_too_small_for_four(GetParam()) ? 2 : 4;
  const bool has_latents = golden_->meta.at("family") == "deepseek_v3";
  for (const char* cache : {"fp8", has_latents ? "int8" : "int8:fp8"}) {
    const std::vector<float> alone = logits(*make_engine(config(1, cache)));
    const double rounding = relative_l2(alone, golden_->floats.at("logits"));
    EXPECT_LT(relative_l2(logits(*make_engine(config(ranks, cache))), alone), 0.25 * rounding) << cache;
  }
}

const auto name_of_case = [](const auto& which) { return test_name(which.param); };
INSTANTIATE_TEST_SUITE_P(Goldens, RankLogits, testing::ValuesIn(kNames), name_of_case);
INSTANTIATE_TEST_SUITE_P(States, RankLogits, testing::ValuesIn(kStateNames), name_of_case);
INSTANTIATE_TEST_SUITE_P(Latents, RankLogits, testing::ValuesIn(kLatentNames), name_of_case);

}  // namespace
}  // namespace octavo::golden
