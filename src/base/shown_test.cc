#include "base/shown.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace octavo {
namespace {

TEST(Shown, StaysOnItsLine) {
  EXPECT_EQ(visible("a\nb\x1b[31m\x7f\x01 \"q\" \\"), "a\\nb\\x1b[31m\\x7f\\x01 \"q\" \\");
  EXPECT_EQ(shown(Json{{"k", "\x7f\n"}}), R"({"k":"\x7f\n"})");
}

TEST(Shown, IsCutBetweenCharacters) {
  EXPECT_EQ(visible("abcdef", 6), "abcdef");
  EXPECT_EQ(visible("abcdefg", 6), "abcdef...");
  EXPECT_EQ(visible("abcde\u00e9g", 6), "abcde...");
  EXPECT_EQ(visible(std::string(9, '\x80'), 4), "...");
  EXPECT_EQ(shown(Json(std::string(1000, 'x'))).size(), kShownBytes + 3);
}

TEST(Shown, MessagesOfJsonAreShort) {
  const auto cut_off = parse_json("[\"" + std::string(100000, 'x') + "\x7f", "a.json");
  ASSERT_FALSE(cut_off);
  EXPECT_LT(cut_off.error().message().size(), 400u);
  EXPECT_EQ(cut_off.error().message().find('\x7f'), std::string::npos);
  const auto wrong = find_int(Json{{"n", std::string(100000, 'x')}}, "n");
  ASSERT_FALSE(wrong);
  EXPECT_LT(wrong.error().message().size(), 200u);
}

}  // namespace
}  // namespace octavo
