#include "text/unicode.h"

#include <gtest/gtest.h>

#include <chrono>

namespace octavo {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  append_repaired(out, bytes, false);
  return out;
}

// Expected values by Python: bytes.decode("utf-8", "replace").
TEST(Unicode, RepairsOneMarkForEachMaximalBrokenSequence) {
  const std::string mark(kReplacementCharacter);
  EXPECT_EQ(repaired("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(repaired("\xFF"
                     "a"),
            mark + "a");
  EXPECT_EQ(repaired("\xE2\x82"), mark);
  EXPECT_EQ(repaired("\xE2\x82"
                     "a"),
            mark + "a");
  EXPECT_EQ(repaired("\xF0\x9F\x98\xF0\x9F\x98\x80"), mark + "\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired("\xC0\xAF"), mark + mark);
  EXPECT_EQ(repaired("\xED\xA0\x80"), mark + mark + mark);
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(repaired("\xE0\x80"), mark + mark);
}

TEST(Unicode, KeepsTheBeginningOfACharacterBack) {
  for (const auto& [bytes, kept] : {std::pair<std::string_view, std::size_t>{"ab", 0},
                                    {"a\xC3", 1},
                                    {"a\xE2\x82", 2},
                                    {"a\xF0\x9F\x98", 3},
                                    {"a\xFF", 0},
                                    {"a\xE0\x80", 0},
                                    {"\xE2\x82\xAC", 0}}) {
    std::string out;
    EXPECT_EQ(append_repaired(out, bytes, true), kept) << bytes;
  }
}

TEST(Unicode, WalksBothWays) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::u32string characters = U"aé€😀";
  std::string again;
  std::vector<std::size_t> starts;
  for (std::size_t at = 0, i = 0; at < text.size(); at += utf8_length(text[at]), ++i) {
    EXPECT_EQ(decode_utf8(text, at), characters[i]);
    append_utf8(again, characters[i]);
    starts.push_back(at);
  }
  EXPECT_EQ(again, text);
  for (std::size_t at = text.size(); at > 0; starts.pop_back()) EXPECT_EQ(at = previous_utf8(text, at), starts.back());
}

// Expected values by Python's unicodedata.normalize.
TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("cafe\u0301", UnicodeForm::nfc), "caf\u00e9");
  EXPECT_EQ(normalize("o\u0323\u0301 o\u0301\u0323", UnicodeForm::nfc), "\u1ecd\u0301 \u1ecd\u0301");
  EXPECT_EQ(normalize("\u1100\u1161\u11a8\u212b\u2126", UnicodeForm::nfc), "\uac01\u00c5\u03a9");
  EXPECT_EQ(normalize("\u0301x\u4e00\u0301\u0327", UnicodeForm::nfc), "\u0301x\u4e00\u0327\u0301");
  EXPECT_EQ(normalize("\u0958", UnicodeForm::nfc), "\u0915\u093c");  // never composed again
  EXPECT_EQ(normalize("\uac01\u00e9", UnicodeForm::nfd), "\u1100\u1161\u11a8e\u0301");
  EXPECT_EQ(normalize("\ufb01\u2460\u00bd", UnicodeForm::nfkc), "fi11\u20442");
  EXPECT_EQ(normalize("\u01c4\u00e9", UnicodeForm::nfkd), "DZ\u030ce\u0301");
  EXPECT_EQ(normalize("", UnicodeForm::nfc), "");
  EXPECT_EQ(normalize("plain, with\nlines", UnicodeForm::nfc), "plain, with\nlines");
}

TEST(Unicode, LongRunsOfMarksAreSortedInLinearTime) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0327";
  const auto start = std::chrono::steady_clock::now();
  const std::string sorted = normalize(text, UnicodeForm::nfd);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));  // quadratic would be hours
  ASSERT_EQ(sorted.size(), text.size());
  EXPECT_EQ(sorted.substr(0, 3), "a\u0327");
  EXPECT_EQ(sorted.find("\u0301"), 500'001u);
}

}  // namespace
}  // namespace octavo
