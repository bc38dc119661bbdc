#include "tool/name_pattern.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(NamePattern, StarsStandForAnythingAndQuestionMarksForOne) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "portable.decode.d64.bf16"));
  EXPECT_TRUE(matches("*.decode.*", "portable.decode.d64.bf16"));
  EXPECT_TRUE(matches("*d128*e4m3", "portable.decode.d128.bf16_e4m3"));
  EXPECT_TRUE(matches("portable.decode.d?4.bf16", "portable.decode.d64.bf16"));
  EXPECT_TRUE(matches("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(matches("**", "x"));
}

TEST(NamePattern, AllOfANameMustMatch) {
  EXPECT_FALSE(matches("", "x"));
  EXPECT_FALSE(matches("decode", "portable.decode"));
  EXPECT_FALSE(matches("*.decode", "portable.decode.d64"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("a*b*c", "a-c-b"));
  EXPECT_FALSE(matches("*aab", "aaaa"));
}

}  // namespace
}  // namespace octavo
