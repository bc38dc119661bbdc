#include "tool/text_windows.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

using Ids = std::vector<std::int32_t>;

ModelSpec spec_of(int positions) {
  ModelSpec spec;
  spec.vocab = 50;
  spec.max_positions = positions;
  return spec;
}

TEST(TextWindows, ATextIsCutOnce) {
  const auto text = cut_windows({"t", {}, {1, 2, 3, 4, 5, 6, 7}}, spec_of(4096), 3);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->windows, (std::vector<Ids>{{1, 2, 3}, {4, 5, 6}}));  // nothing stands before 7
  EXPECT_EQ(text->num_tokens, 7);
}

TEST(TextWindows, EachBeginsAsTheModelExpects) {
  const auto text = cut_windows({"t", {49}, {1, 2, 3, 4, 5}}, spec_of(4096), 3);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->windows, (std::vector<Ids>{{49, 1, 2}, {49, 3, 4}, {49, 5}}));
}

TEST(TextWindows, TheUsualWindowIsTheModelsOr2048) {
  EXPECT_EQ(cut_windows({"t", {}, {1, 2}}, spec_of(512), {})->context, 512);
  EXPECT_EQ(cut_windows({"t", {}, {1, 2}}, spec_of(131072), {})->context, 2048);
  EXPECT_EQ(cut_windows({"t", {}, {1, 2}}, spec_of(131072), 100000)->context, 100000);
}

TEST(TextWindows, SaysWhatIsWrong) {
  const auto refusal = [](const TextTokens& text, int context) {
    return cut_windows(text, spec_of(100), context).error().message();
  };
  EXPECT_EQ(refusal({"t", {}, {}}, 10), "t holds 0 tokens: there must be at least two");
  EXPECT_EQ(refusal({"t", {}, {1}}, 10), "t holds 1 tokens: there must be at least two");
  EXPECT_EQ(refusal({"t", {}, {1, 50}}, 10), "t holds token 50, but the model's vocabulary ends at 49");
  EXPECT_EQ(refusal({"t", {}, {1, 2}}, 101),
            "--context 101 is more than the 100 positions that the model was made for");
  EXPECT_EQ(refusal({"t", {3}, {1, 2}}, 2), "--context 2 is too short: at least 3 tokens");
}

}  // namespace
}  // namespace octavo
