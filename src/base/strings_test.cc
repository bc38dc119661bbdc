#include "base/strings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"

namespace octavo {
namespace {

TEST(Strings, SizesTakeSuffixesAndRefuseGarbage) {
  EXPECT_EQ(*parse_size("8192"), 8192);
  EXPECT_EQ(*parse_size("8k"), 8000);
  EXPECT_EQ(*parse_size("25.6k"), 25600);
  EXPECT_EQ(*parse_size("8K"), 8192);
  EXPECT_EQ(*parse_size("1.5K"), 1536);
  EXPECT_EQ(*parse_size("2G"), 2147483648);
  EXPECT_EQ(*parse_size("9223372036854775807"), INT64_MAX);
  for (const char* bad :
       {"", "k", "-1", "+1", " 1", "1 ", "1kb", "0x10", "1e3", "nan", "1.2.3", "99999999999999999999", "0.3"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Strings, NearestFindsTypingErrorsOnly) {
  const std::vector<std::string> flags = {"--kv-cache-dtype", "--max-model-len", "--seed"};
  EXPECT_EQ(nearest("--kv-cache-dtyp", flags), "--kv-cache-dtype");
  EXPECT_EQ(nearest("--sede", flags), "--seed");
  EXPECT_EQ(nearest("--completely-different", flags), std::nullopt);
}

TEST(Strings, InvalidUtf8IsFoundAtItsOffset) {
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(find_invalid_utf8("a\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("abc\xE2\x82"), 3u);       // cut off
}

TEST(Strings, SplitTrimQuote) {
  EXPECT_EQ(split("0, 1  2,", ", ").size(), 3u);
  EXPECT_EQ(trim("  x y\n"), "x y");
  EXPECT_EQ(in_quotes("a\"b\n\x01"), "\"a\\\"b\\n\\x01\"");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
}

TEST(Log, FieldsWithSpacesAreQuoted) {
  EXPECT_EQ(log::format_line("ready", {{"tokens", 8}, {"why", "no scale"}, {"ok", true}, {"x", 0.5}}),
            "ready tokens=8 why=\"no scale\" ok=true x=0.5");
}

}  // namespace
}  // namespace octavo
