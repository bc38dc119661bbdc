#include "text/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "text/regex_syntax.h"

namespace octavo {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message();
  RegexSearch search(*regex);
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = *search.find(text, at);
    if (!match) break;
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
    at = match->end > at ? match->end : at + 1;
  }
  return found;
}

using Found = std::vector<std::string>;

TEST(Regex, WhiteSpaceIsUnicodesProperty) {
  EXPECT_EQ(matches(R"(\s)", "\u0085\u00a0\u180e\u200b\u3000"), (Found{"\u0085", "\u00a0", "\u3000"}));
  EXPECT_EQ(matches(R"([\s]+)", "a \u2003b"), (Found{" \u2003"}));
  EXPECT_EQ(matches(R"(\S+)", " a\u180e\u00a0b"), (Found{"a\u180e", "b"}));
  EXPECT_EQ(matches(R"([^\S]+)", "a \u2003b"), (Found{" \u2003"}));
  EXPECT_EQ(matches(R"([\Sx]+)", "a b"), (Found{"a", "b"}));
}

TEST(Regex, WordsHaveMarksAndDigitsOfAllScripts) {
  EXPECT_EQ(matches(R"(\w+)", "e\u0301_1\u0663 \u2460 \u00b2"), (Found{"e\u0301_1\u0663", "\u00b2"}));
  EXPECT_EQ(matches(R"(\W+)", "a \u2460b"), (Found{" \u2460"}));
}

TEST(Regex, ScriptNamesMeanTheScriptAlone) {
  // U+3001 is used with Han (a script extension), but of no script itself.
  EXPECT_EQ(matches(R"(\p{Han}+)", "漢字、かな々"), (Found{"漢字", "々"}));
  EXPECT_EQ(matches(R"([\p{^Han}]+)", "漢字、かな"), (Found{"、かな"}));
}

TEST(Regex, ClassesCutWithEachOther) {
  EXPECT_EQ(matches(R"([\p{Lo}\p{Ll}&&[^\p{Han}]]+)", "漢字かなabC"), (Found{"かなab"}));
  EXPECT_EQ(matches(R"([\p{L}\p{M}&&[^\p{Han}x]]+)", "漢axb1"), (Found{"a", "b"}));
}

TEST(Regex, FoldsCaseAsUnicodeDoes) { EXPECT_EQ(matches(R"((?i:'s))", "'s'S'\u017f"), (Found{"'s", "'S", "'\u017f"})); }

TEST(Regex, RefusesWhatItCannotDo) {
  for (const auto& [pattern, word] :
       std::vector<std::pair<std::string, std::string>>{{"(", "does not compile"},
                                                        {"[a", "without an end"},
                                                        {"a\\", "backslash"},
                                                        {R"(\pL)", "braces"},
                                                        {"[[:alpha:]]", "POSIX"},
                                                        {"[a[b]]", "class inside"},
                                                        {"[a&&[^b]]", "not supported"},
                                                        {R"([\W])", "not supported"},
                                                        {R"(\p{Nonsense})", "does not compile"},
                                                        {"a**", ""},
                                                        {std::string(70'000, 'a'), "64 KiB"},
                                                        {"\xFF", "UTF-8"}}) {
    const auto result = Regex::compile(pattern);
    if (word.empty()) continue;
    ASSERT_FALSE(result) << pattern;
    EXPECT_NE(result.error().message().find(word), std::string::npos) << result.error().message();
  }
}

TEST(Regex, LongRunsTakeLinearTime) {
  const std::string spaces(2'000'000, ' ');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "x").size(), 2u);
  EXPECT_EQ(matches(R"(\p{L}+|\s+(?!\S))", std::string(2'000'000, 'a')).size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// More than the compiled form's stack: the interpreter takes over, and nothing is lost.
TEST(Regex, DeepBacktrackingGoesOnTheHeap) {
  const std::string text(20'000, 'a');
  EXPECT_EQ(matches("(?:a|b)*", text).at(0).size(), text.size());
}

// Each of these needs far more steps than it may take at any one place; and the text has many places.
TEST(Regex, WhatIsHardAtEveryPlaceEndsSoon) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(30, 'a') + "!";
  const auto start = std::chrono::steady_clock::now();
  for (const char* pattern : {"(a+)+$", "(?:a|aa)*b", "(a?){40}c", "(?=(a+)+b)a", "([a-z]+)*\\d"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex) << pattern;
    RegexSearch search(*regex);
    const auto result = search.find(text, 0);
    EXPECT_TRUE(result || result.error().message().find("gave up") != std::string::npos) << pattern;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Wherever a match needs many steps, it is the one that a search with steps without end finds.
TEST(Regex, LongRunsAmongOthersAreFound) {
  std::string text;
  Found spaces;
  for (int i = 0; i < 150; ++i) {
    text += "\u00e9w";
    spaces.emplace_back(static_cast<std::size_t>(i * i), ' ');
    text += spaces.back() + (i % 3 == 0 ? "\n" : "");
  }
  // What precedes a word keeps its last space for it; what precedes a line end goes with that.
  Found expected;
  for (int i = 0; i < 150; ++i) {
    const std::string& run = spaces[static_cast<std::size_t>(i)];
    if (i % 3 == 0) {
      expected.push_back(run + "\n");
    } else if (i < 149) {
      if (run.size() > 1) expected.push_back(run.substr(1));
      expected.emplace_back(" ");
    } else {
      expected.push_back(run);
    }
  }
  EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", text), expected);
}

TEST(Regex, GivesUpWithAnError) {
  const auto regex = Regex::compile("(a+)+$");
  ASSERT_TRUE(regex);
  RegexSearch search(*regex);
  const auto result = search.find(std::string(40, 'a') + "!", 0);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("gave up"), std::string::npos);
}

}  // namespace
}  // namespace octavo
