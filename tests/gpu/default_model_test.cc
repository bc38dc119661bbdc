// The default model on the GPU against golden-smollm2.json.

#include "tests/golden/default_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/golden/fixture.h"
#include "tests/gpu/gpu.h"
#include "tool/eval_nll.h"

namespace octavo::golden {
namespace {

class GpuSmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    const auto file = find_file("golden-smollm2.json");
    if (!file) return;
    if (!std::filesystem::exists(default_model())) {
      std::printf("1 case not run: the default model is not at %s\n", default_model().c_str());
      return;
    }
    golden_ = *read_json_file(*file);
    config_.model_path = default_model();
    config_.max_num_seqs = 4;
    config_.fill_memory = false;  // other processes test beside this one
  }
  std::optional<Json> golden_;
  EngineConfig config_;
};

TEST_F(GpuSmolLM2, LikelihoodIsTheReferences) {
  if (!golden_) return;
  const std::string report = std::string(testing::TempDir()) + "octavo_nll.json";
  const Json& entry = golden_->at("nll")[1];
  const Status done = eval_nll({config_, entry.at("text").get<std::string>(), std::nullopt, report}, gpu::factory());
  ASSERT_TRUE(done) << done.error().message();
  const Json nll = *read_json_file(report);
  EXPECT_EQ(nll.at("tokens"), entry.at("n_tokens"));
  EXPECT_NEAR(nll.at("mean_nll").get<double>(), entry.at("mean_nll").get<double>(), 3e-3);
  std::filesystem::remove(report);
}

TEST_F(GpuSmolLM2, GreedyTextIsTheReferencesToItsFirstThinMargin) {
  if (!golden_) return;
  const auto engine = Engine::create(config_, gpu::factory());
  ASSERT_TRUE(engine) << engine.error().message();
  expect_greedy(**engine, golden_->at("greedy"));
}

}  // namespace
}  // namespace octavo::golden
