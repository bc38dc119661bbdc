#include "engine/load_progress.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo {
namespace {

constexpr std::int64_t kBytes = 1 << 20;

// Gives weights of bf16 that lie nowhere, each a second after the last.
class SlowBinder final : public Binder {
 public:
  Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) override {
    if (fails) return Error("the file ends", ErrorKind::invalid);
    now += seconds;
    target = {.parts = {}, .out = parts[0].out, .in = in};
    target.parts.emplace_back();
    target.parts[0].values = Tensor(static_cast<const void*>(nullptr), DType::bf16, {parts[0].out, in});
    return {};
  }
  Status experts(std::vector<Weight>&, const ExpertsRequest&) override { return {}; }
  Status expert_biases(Tensor&, const ExpertsRequest&) override { return {}; }
  Status vectors(Tensor&, std::span<const PartRequest>) override { return {}; }
  Status depthwise(Tensor&, std::span<const PartRequest>, std::int64_t) override { return {}; }
  Status constant(Tensor&, std::span<const float>) override { return {}; }
  bool has(const std::string& name) const override { return name == "there"; }
  Result<StoredScales> kv_scales(const std::string&, int, int) override { return StoredScales(); }

  double seconds = 1;
  double now = 100;
  bool fails = false;
};

struct Shown {
  std::string text;
  std::vector<int> percents;
};

// Binds 40 weights of 1 MiB.
Shown load(SlowBinder& binder, bool terminal) {
  Shown shown;
  {
    LoadProgress progress(binder, 40 * kBytes,
                          {.terminal = terminal,
                           .write = [&](const std::string& text) { shown.text += text; },
                           .log = [&](int percent, std::size_t, double) { shown.percents.push_back(percent); },
                           .clock = [&] { return std::chrono::duration<double>(binder.now); }});
    EXPECT_TRUE(progress.has("there"));
    for (int i = 0; i < 40; ++i) {
      Weight weight;
      const PartRequest part{"w", 512};
      if (!progress.weight(weight, {&part, 1}, 1024)) break;
    }
  }
  return shown;
}

TEST(LoadProgress, TheLogTellsEachTenPercentOfALongLoad) {
  SlowBinder binder;
  EXPECT_EQ(load(binder, false).percents, (std::vector<int>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  binder.seconds = 0.2;  // two seconds are over after ten of the weights
  EXPECT_EQ(load(binder, false).percents.front() / 10, 2);
}

TEST(LoadProgress, AShortLoadShowsNothing) {
  SlowBinder binder;
  binder.seconds = 0.01;
  EXPECT_TRUE(load(binder, false).percents.empty());
  EXPECT_EQ(load(binder, true).text, "");
}

TEST(LoadProgress, ATerminalGetsOneLineThatGoesAway) {
  SlowBinder binder;
  const Shown shown = load(binder, true);
  EXPECT_TRUE(shown.percents.empty());
  EXPECT_NE(shown.text.find("\rloading [###############               ] 50%  20.0 MiB of 40.0 MiB  1.0 MiB/s"),
            std::string::npos)
      << shown.text;
  EXPECT_TRUE(shown.text.ends_with("\r\033[K"));
  EXPECT_EQ(shown.text.find('\n'), std::string::npos);
}

TEST(LoadProgress, AFailureIsPassedOn) {
  SlowBinder binder;
  binder.fails = true;
  LoadProgress progress(binder, kBytes, LoadProgress::standard_error());
  Weight weight;
  const PartRequest part{"w", 512};
  EXPECT_EQ(progress.weight(weight, {&part, 1}, 8).error().message(), "the file ends");
}

}  // namespace
}  // namespace octavo
