// Logits of every golden checkpoint of the families here, against the reference library's: both dtypes, every cache
// dtype, chunked and decoded.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

KvCacheChoice cache(const char* dtype, TransformChoice transform = TransformChoice::automatic) {
  KvCacheChoice choice = *parse_kv_cache_dtype(dtype);
  choice.transform = transform;
  return choice;
}

std::vector<float> logits(const EngineConfig& config, const std::vector<std::int32_t>& ids,
                          std::optional<int> decode_from = std::nullopt, bool plain = false) {
  const auto engine = make_engine(config, plain);
  auto result = engine->logits(ids, decode_from);
  EXPECT_TRUE(result) << result.error().message();
  return result ? *result : std::vector<float>();
}

class Logits : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto folder = find(GetParam())) golden_ = load(*folder);
  }
  const std::vector<std::int32_t>& ids() const { return golden_->ids.at("input_ids"); }
  const std::vector<float>& reference() const { return golden_->floats.at("logits"); }
  EngineConfig config() const { return engine_config(golden_->folder); }

  std::optional<Golden> golden_;
};

TEST_P(Logits, Float32LandsAtTheReferenceOnEveryPath) {
  if (!golden_) return;
  EXPECT_LT(relative_l2(logits(config(), ids()), reference()), 5e-4);
  EXPECT_LT(relative_l2(logits(config(), ids(), std::nullopt, true), reference()), 5e-4);
}

TEST_P(Logits, BfloatIsNoWorseThanTheLibrarysOwn) {
  if (!golden_) return;
  EngineConfig bf16 = config();
  bf16.compute.reset();
  EXPECT_LT(relative_l2(logits(bf16, ids()), reference()), bfloat_bound(*golden_));
}

bool has_latents(const Golden& golden) { return golden.meta.at("family") == "deepseek_v3"; }

TEST_P(Logits, ChunksAndDecodeStepsGiveTheSame) {
  if (!golden_) return;
  for (const char* dtype : {"auto", "fp8"}) {
    // Latent attention takes its expanded form in chunks and its absorbed one in decodes: the next layer's numbers
    // differ in their last bits, and one that lies at the edge of two codes of 8 bits may take the other (seen: 4e-5).
    const double bound = has_latents(*golden_) && std::string_view(dtype) == "fp8" ? 5e-4 : 1e-5;
    EngineConfig whole = config();
    whole.kv_cache = cache(dtype);
    const std::vector<float> expected = logits(whole, ids());
    for (const int chunk : {1, 7, 64}) {
      EngineConfig chunked = whole;
      chunked.max_num_batched_tokens = chunk;
      chunked.max_num_seqs = 1;
      EXPECT_LT(relative_l2(logits(chunked, ids()), expected), bound) << dtype << " chunk " << chunk;
    }
    for (const int decode_from : {1, 50, 95})
      EXPECT_LT(relative_l2(logits(whole, ids(), decode_from), expected), bound)
          << dtype << " decode from " << decode_from;
  }
}

// Ours must lie near the golden with the rounded cache: within 0.4 of its own distance to the unrounded one.
void expect_near_rounded(const Golden& golden, const EngineConfig& config, const std::string& name) {
  const std::vector<float>& rounded = golden.floats.at(name);
  const double golden_distance = relative_l2(golden.floats.at("logits"), rounded);
  const double ours = relative_l2(logits(config, golden.ids.at("input_ids")), rounded);
  EXPECT_LT(ours, 0.4 * golden_distance) << name << " of " << golden.folder;
}

TEST_P(Logits, Fp8CacheLandsAtTheRoundedGoldens) {
  if (!golden_) return;
  EngineConfig fp8 = config();
  fp8.kv_cache = cache("fp8", TransformChoice::none);
  if (has_latents(*golden_)) fp8.kv_cache.rope = KvElem::e4m3;  // the goldens round both parts
  const std::vector<float>& amax = golden_->floats.at("kv_amax");
  for (const char* name : {"logits_kv8_unit", "logits_kv8_ckpt"}) {
    if (!golden_->floats.contains(name)) continue;
    EngineConfig given = fp8;
    // A latent without given scales gets its own for each 128 numbers; a scale of 1 must be given.
    const std::vector<float> ones(amax.size() / 2, 1.0f);
    if (has_latents(*golden_)) given.model_path = copy_with_scales(golden_->folder, ones, ones);
    expect_near_rounded(*golden_, given, name);
    if (has_latents(*golden_)) std::filesystem::remove_all(given.model_path);
  }
  std::vector<float> key, value;
  for (std::size_t i = 0; i + 1 < amax.size(); i += 2) {
    key.push_back(amax[i] / 448.0f);
    value.push_back(amax[i + 1] / 448.0f);
  }
  fp8.model_path = copy_with_scales(golden_->folder, key, value);
  expect_near_rounded(*golden_, fp8, "logits_kv8_amax");
  std::filesystem::remove_all(fp8.model_path);
}

// A scale for each 128 numbers, made by the writer, with rope keys in 16 bits: as near as calibrated scales per tensor,
// and int8 nearer. Over the rows that the calibrated golden has.
TEST_P(Logits, ALatentInFp8NeedsNoCalibration) {
  if (!golden_ || !has_latents(*golden_)) return;
  EngineConfig fp8 = config();
  fp8.kv_cache = cache("fp8");
  EngineConfig int8 = config();
  int8.kv_cache = cache("int8");
  const std::vector<float>& rounded = golden_->floats.at("logits_kv8_amax");
  const std::vector<float> exact(reference().end() - std::ssize(rounded), reference().end());
  const double calibrated = relative_l2(rounded, exact);
  EXPECT_LT(relative_l2(logits(fp8, ids()), exact), 1.2 * calibrated);
  EXPECT_LT(relative_l2(logits(int8, ids()), exact), 0.5 * calibrated);
}

TEST_P(Logits, SkippedLayersKeepWhatAutoKeeps) {
  if (!golden_) return;
  EngineConfig skipping = config();
  skipping.kv_cache = cache("fp8");
  const std::vector<float> rounded = logits(skipping, ids());
  const auto engine = make_engine(config());
  const std::vector<LayerFacts>& layers = engine->facts().layers;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].has_cache) skipping.skip_layers.push_back(std::to_string(i));
  const std::vector<float> exact = logits(config(), ids());
  EXPECT_EQ(logits(skipping, ids()), exact);
  if (skipping.skip_layers.size() == 1) return;  // there is no other
  skipping.skip_layers.resize(1);
  const std::vector<float> one = logits(skipping, ids());
  EXPECT_GT(relative_l2(one, exact), 0.0);
  EXPECT_GT(relative_l2(one, rounded), 0.0);
}

TEST_P(Logits, GreedyFollowsTheGoldenToItsFirstThinMargin) {
  if (!golden_) return;
  const auto engine = make_engine(config());
  Request request;
  request.prompt = ids();
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 16;
  request.sampling.ignore_eos = true;
  auto stream = engine->submit(request);
  ASSERT_TRUE(stream) << stream.error().message();
  std::vector<std::int32_t> tokens;
  while (const auto event = (*stream)->next())
    if (event->token) tokens.push_back(*event->token);
  ASSERT_EQ(tokens.size(), 16u);
  const auto& expected = golden_->ids.at("greedy_ids");
  const auto& margin = golden_->floats.at("greedy_margin");
  for (std::size_t i = 0; i < tokens.size() && margin[i] >= 0.3f; ++i)
    EXPECT_EQ(tokens[i], expected[i]) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(Goldens, Logits, testing::ValuesIn(kNames),
                         [](const auto& which) { return test_name(which.param); });
INSTANTIATE_TEST_SUITE_P(States, Logits, testing::ValuesIn(kStateNames),
                         [](const auto& which) { return test_name(which.param); });
INSTANTIATE_TEST_SUITE_P(Latents, Logits, testing::ValuesIn(kLatentNames),
                         [](const auto& which) { return test_name(which.param); });

// kv-accuracy: an int8 cache loses less than half of what plain fp8 loses, and int8:fp8 lies between.
TEST(CacheDtypes, Int8LosesAtMostHalfOfFp8AndThePairLiesBetween) {
  double fp8 = 0, int8 = 0, pair = 0;
  int count = 0;
  for (const char* name : kNames) {
    const auto folder = find(name);
    if (!folder) continue;
    const Golden golden = load(*folder);
    const auto distance = [&](const KvCacheChoice& choice) {
      EngineConfig config = engine_config(*folder);
      config.kv_cache = choice;
      return relative_l2(logits(config, golden.ids.at("input_ids")), golden.floats.at("logits"));
    };
    fp8 += distance(cache("fp8", TransformChoice::none));
    int8 += distance(cache("int8"));
    pair += distance(cache("int8:fp8"));
    ++count;
  }
  std::printf("mean distance to float32 over %d goldens: fp8 %.5f, int8:fp8 %.5f, int8 %.5f\n", count, fp8 / count,
              pair / count, int8 / count);
  EXPECT_LE(int8, 0.5 * fp8);
  EXPECT_LT(int8, pair);
  EXPECT_LT(pair, fp8);
}

}  // namespace
}  // namespace octavo::golden
