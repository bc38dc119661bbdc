#include "kv/skip_layers.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

// Six layers: four slide, two see everything.
const std::vector<std::string> kKinds = {"sliding_window", "sliding_window", "full_attention",
                                         "sliding_window", "sliding_window", "full_attention"};

std::string skipped(const std::vector<std::string>& values, const std::vector<std::string>& kinds = kKinds) {
  const auto layers = parse_skip_layers(values, kinds);
  if (!layers) return layers.error().message();
  std::string text;
  for (const bool skip : *layers) text += skip ? 'x' : '.';
  return text;
}

TEST(SkipLayers, IndicesRangesAndKinds) {
  EXPECT_EQ(skipped({}), "......");
  EXPECT_EQ(skipped({"0", "1", "5"}), "xx...x");
  EXPECT_EQ(skipped({"0,1,5"}), "xx...x");
  EXPECT_EQ(skipped({"0, 1 ,5"}), "xx...x");
  EXPECT_EQ(skipped({"2-5"}), "..xxxx");
  EXPECT_EQ(skipped({"-1"}), ".....x");
  EXPECT_EQ(skipped({"-6"}), "x.....");
  EXPECT_EQ(skipped({"-3--1", "0"}), "x..xxx");
  EXPECT_EQ(skipped({"3-3"}), "...x..");
  EXPECT_EQ(skipped({"0--1"}), "xxxxxx");
  EXPECT_EQ(skipped({"sliding_window"}), "xx.xx.");
  EXPECT_EQ(skipped({"sliding-window,2"}), "xxxxx.");
  EXPECT_EQ(skipped({"sliding_attention"}), "xx.xx.");
  EXPECT_EQ(skipped({"full_attention"}), "..x..x");
}

TEST(SkipLayers, NamesWhatDoesNotExist) {
  EXPECT_EQ(skipped({"99"}),
            "--kv-cache-dtype-skip-layers \"99\": there is no layer 99; this model has layers 0 to 5 and the kinds "
            "sliding_window, full_attention");
  EXPECT_EQ(skipped({"0", "linear_attention"}),
            "--kv-cache-dtype-skip-layers \"linear_attention\": no layer is of this kind; this model has layers 0 to 5 "
            "and the "
            "kinds sliding_window, full_attention");
  for (const char* bad : {"6", "-7", "4-6", "5-2", "1-", "-", "--1", "1.5", "0x1", "1-2-3", "", " ", ",",
                          "99999999999999999999", "full", "*"})
    EXPECT_TRUE(skipped({bad}).starts_with("--kv-cache-dtype-skip-layers ")) << bad;
}

TEST(SkipLayers, LayersWithoutACacheCannotBeSkipped) {
  const std::vector<std::string> hybrid = {"", "", "", "full_attention"};
  EXPECT_EQ(skipped({"0-3"}, hybrid), "...x");
  EXPECT_EQ(skipped({"3"}, hybrid), "...x");
  EXPECT_NE(skipped({"1"}, hybrid).find("nothing to skip"), std::string::npos);
  EXPECT_NE(skipped({"0-2"}, hybrid).find("nothing to skip"), std::string::npos);
}

}  // namespace
}  // namespace octavo
