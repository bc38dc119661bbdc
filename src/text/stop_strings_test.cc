#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace octavo {
namespace {

struct Shown {
  std::string text;
  int index = -1;
  std::size_t position = 0;
};

// By definition: the match that ends first, of those the longest.
Shown expected(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (int i = 0; i < static_cast<int>(stops.size()); ++i)
      if (text.substr(0, end).ends_with(stops[i]) && (best < 0 || stops[i].size() > stops[best].size())) best = i;
    if (best < 0) continue;
    const std::size_t begin = end - stops[best].size();
    return {text.substr(0, include ? end : begin), best, begin};
  }
  return {text};
}

Shown streamed(const std::vector<std::string>& deltas, const std::vector<std::string>& stops, bool include) {
  StopStrings matcher = *StopStrings::create(stops, include);
  Shown shown;
  for (const std::string& delta : deltas) shown.text += matcher.push(delta);
  shown.text += matcher.finish();
  if (matcher.match()) {
    shown.index = matcher.match()->index;
    shown.position = matcher.match()->position;
  }
  return shown;
}

void expect_same(const Shown& a, const Shown& b) {
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.position, b.position);
}

TEST(StopStrings, EverySplitGivesTheSame) {
  const std::vector<std::vector<std::string>> stops = {
      {"END"}, {"\n\n", "\n"}, {"abcd", "bc"}, {"aab"}, {"aaaa", "aa"}, {"é"}, {"</s>", "</"}, {"abcab", "cabd"}, {}};
  const std::vector<std::string> texts = {"the END of", "a\nb\n\nc", "xabcd", "aaaab aab", "è é",
                                          "x</s>y",     "abcabd",    "EEND",  "",          "EN"};
  for (const auto& list : stops) {
    for (const std::string& text : texts) {
      for (const bool include : {false, true}) {
        const Shown want = expected(text, list, include);
        for (std::size_t a = 0; a <= text.size(); ++a)
          for (std::size_t b = a; b <= text.size(); ++b)
            expect_same(streamed({text.substr(0, a), text.substr(a, b - a), text.substr(b)}, list, include), want);
      }
    }
  }
}

TEST(StopStrings, RandomTextsOfFewLetters) {
  std::mt19937 random(1);
  const auto word = [&](int longest) {
    std::string text;
    for (int n = 1 + static_cast<int>(random() % longest); n > 0; --n) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {word(6), word(5), word(9)};
    std::vector<std::string> deltas;
    std::string text;
    for (int n = 0; n < 6; ++n) text += deltas.emplace_back(word(5));
    expect_same(streamed(deltas, stops, round % 2 == 0), expected(text, stops, round % 2 == 0));
  }
}

// At no time is anything shown that a later delta could turn into a part of a stop string; nor is more held than that.
TEST(StopStrings, HoldsBackExactlyWhatCouldBegin) {
  StopStrings matcher = *StopStrings::create({"STOP", "TOPPLE"});
  EXPECT_EQ(matcher.push("a S"), "a ");
  EXPECT_EQ(matcher.push("TO"), "");
  EXPECT_EQ(matcher.push("X"), "STOX");
  EXPECT_EQ(matcher.push("xSTO"), "x");
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.push("P and more"), "");
  ASSERT_TRUE(matcher.match());
  EXPECT_EQ(matcher.match()->position, 7u);
  EXPECT_EQ(matcher.push("never shown"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, RefusesAnEmptyOne) {
  const auto result = StopStrings::create({"a", ""});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("stop string is empty"), std::string::npos);
}

TEST(StopStrings, RefusesMoreThanTheLimit) {
  EXPECT_TRUE(StopStrings::create({std::string(kMaxStopBytes - 1, 'a'), "b"}));
  const auto result = StopStrings::create({std::string(kMaxStopBytes, 'a'), "b"});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("more than 262144 bytes"), std::string::npos);
}

// Ten thousand tokens or so that begin alike again and again: found where they are, and held back no longer than
// needed.
TEST(StopStrings, LongOnesAreFoundWhereTheyAre) {
  std::string stop;
  for (int i = 0; i < 10'000; ++i) stop += "word" + std::to_string(i % 7) + (i % 1000 == 999 ? "!" : " ");
  const std::string almost = stop.substr(0, stop.size() - 1);
  const std::string text = "before " + almost + "? " + almost + stop + "behind";
  for (const bool include : {false, true}) {
    StopStrings matcher = *StopStrings::create({stop, almost + "+"}, include);
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += 5) shown += matcher.push(std::string_view(text).substr(at, 5));
    const std::size_t begin = text.size() - 6 - stop.size();
    EXPECT_TRUE(shown + matcher.finish() == text.substr(0, include ? begin + stop.size() : begin));
    ASSERT_TRUE(matcher.match());
    EXPECT_EQ(matcher.match()->position, begin);
  }
  StopStrings matcher = *StopStrings::create({stop});
  std::string shown = matcher.push("before " + almost);
  EXPECT_EQ(shown, "before ");
  EXPECT_TRUE(matcher.finish() == almost);
}

TEST(StopStrings, LongHeldTextIsLinear) {
  StopStrings matcher = *StopStrings::create({std::string(1000, 'a') + "b"});
  std::string shown;
  for (int i = 0; i < 100'000; ++i) shown += matcher.push("a");
  EXPECT_EQ(shown.size(), 99'000u);
  EXPECT_EQ((shown += matcher.finish()).size(), 100'000u);
}

}  // namespace
}  // namespace octavo
