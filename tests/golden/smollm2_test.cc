// The default model against golden-smollm2.json: an own float32 program's token ids, logits, likelihoods and greedy
// text. Needs the fetched model (scripts/test fetches it) and the golden (OCTAVO_FIXTURES).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "engine/text_assets.h"
#include "tests/golden/default_model.h"
#include "tests/golden/fixture.h"
#include "tool/eval_kld.h"
#include "tool/eval_nll.h"

namespace octavo::golden {
namespace {

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    const auto file = find_file("golden-smollm2.json");
    if (!file) return;
    if (!std::filesystem::exists(default_model())) {
      std::printf("1 case not run: the default model is not at %s\n", default_model().c_str());
      return;
    }
    golden_ = *read_json_file(*file);
  }
  EngineConfig config() const {
    EngineConfig config = engine_config(default_model());
    config.max_num_seqs = 1;
    return config;
  }
  const Json& golden(const char* key) const { return golden_->at(key); }

  std::optional<Json> golden_;
};

// Mean negative log likelihood of each next token, in double.
double mean_nll(const std::vector<float>& logits, const std::vector<std::int32_t>& ids) {
  const std::size_t vocab = logits.size() / ids.size();
  double sum = 0;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const float* row = logits.data() + t * vocab;
    double total = 0;
    for (std::size_t i = 0; i < vocab; ++i) total += std::exp(static_cast<double>(row[i]));
    sum += std::log(total) - static_cast<double>(row[static_cast<std::size_t>(ids[t + 1])]);
  }
  return sum / static_cast<double>(ids.size() - 1);
}

TEST_F(SmolLM2, TokenIds) {
  if (!golden_) return;
  const auto tokenizer = load_tokenizer(*Checkpoint::open_text(default_model()));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  for (const Json& entry : golden("tokenize")) {
    const auto text = entry.at("text").get<std::string>();
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, entry.at("ids").get<std::vector<std::int32_t>>()) << text;
    EXPECT_EQ(tokenizer->decode(*ids), entry.value("decoded", text));
  }
  const auto asset = load_chat_template(*Checkpoint::open_text(default_model()), "");
  ASSERT_TRUE(asset) << asset.error().message();
  for (const Json& chat : golden("greedy")) {
    OrderedJson variables = asset->special;
    variables["messages"] = OrderedJson::parse(chat.at("messages").dump());
    variables["add_generation_prompt"] = true;
    const auto rendered = asset->chat_template.render(variables);
    ASSERT_TRUE(rendered) << rendered.error().message();
    EXPECT_EQ(*rendered, chat.at("rendered").get<std::string>());
    EXPECT_EQ(*tokenizer->encode(*rendered), chat.at("ids").get<std::vector<std::int32_t>>());
  }
}

TEST_F(SmolLM2, TopLogitsInFloat32) {
  if (!golden_) return;
  const auto engine = make_engine(config());
  for (const Json& entry : golden("logits")) {
    const auto ids = entry.at("ids").get<std::vector<std::int32_t>>();
    const auto logits = engine->logits(ids, std::nullopt);
    ASSERT_TRUE(logits) << logits.error().message();
    const float* last = logits->data() + (ids.size() - 1) * static_cast<std::size_t>(engine->spec().vocab);
    for (std::size_t i = 0; i < entry.at("top_ids").size(); ++i)
      EXPECT_NEAR(last[entry.at("top_ids")[i].get<int>()], entry.at("top_logits")[i].get<double>(), 2e-3)
          << entry.at("text").get<std::string>().substr(0, 40) << " rank " << i;
  }
}

TEST_F(SmolLM2, LikelihoodInTheDtypeThatUsersGet) {
  if (!golden_) return;
  EngineConfig bf16 = config();
  bf16.compute.reset();
  const auto engine = make_engine(bf16);
  for (const Json& entry : golden("nll")) {
    const auto ids = entry.at("ids").get<std::vector<std::int32_t>>();
    const auto logits = engine->logits(ids, std::nullopt);
    ASSERT_TRUE(logits) << logits.error().message();
    const double nll = mean_nll(*logits, ids);
    std::printf("%s: mean NLL %.5f, reference %.5f\n", entry.at("text").get<std::string>().c_str(), nll,
                entry.at("mean_nll").get<double>());
    EXPECT_NEAR(nll, entry.at("mean_nll").get<double>(), 3e-3);
  }
}

// The commands on the second text, which is shorter than a window. What the cache costs was measured elsewhere by
// rounding K and V of a float32 model.
TEST_F(SmolLM2, TheInstrumentsAgreeWithTheReference) {
  if (!golden_) return;
  const Json& entry = golden("nll")[1];
  const std::string report = std::string(testing::TempDir()) + "octavo_instruments.json";
  ASSERT_TRUE(eval_nll({config(), entry.at("text").get<std::string>(), std::nullopt, report}, cpu_factory()));
  const Json nll = *read_json_file(report);
  EXPECT_EQ(nll.at("tokens"), entry.at("n_tokens"));
  EXPECT_NEAR(nll.at("mean_nll").get<double>(), entry.at("mean_nll").get<double>(), 1e-4);

  EvalKldOptions kld{.engine = config(),
                     .kv_cache_name = "fp8",
                     .reference = {},
                     .reference_name = "auto",
                     .text_file = entry.at("text").get<std::string>(),
                     .context = {},
                     .output_json = report};
  kld.engine.kv_cache = *parse_kv_cache_dtype("fp8");
  kld.engine.kv_cache.transform = TransformChoice::none;
  ASSERT_TRUE(eval_kld(kld, cpu_factory()));
  const Json all = (*read_json_file(report)).at("all");
  const Json& rounded = entry.at("kv_rounded").at("fp8_e4m3_scale1");
  EXPECT_NEAR(all.at("mean").get<double>() / rounded.at("mean_kld").get<double>(), 1, 0.1);
  EXPECT_NEAR(all.at("max").get<double>() / rounded.at("max_kld").get<double>(), 1, 0.1);
  EXPECT_NEAR(all.at("same_argmax").get<double>(), rounded.at("top1_agree").get<double>(), 0.01);
  std::remove(report.c_str());
}

TEST_F(SmolLM2, GreedyTextToItsFirstThinMargin) {
  if (!golden_) return;
  for (const bool float32 : {true, false}) {
    EngineConfig either = config();
    if (!float32) either.compute.reset();
    const auto engine = make_engine(either);
    expect_greedy(*engine, golden("greedy"));
  }
}

}  // namespace
}  // namespace octavo::golden
