#include "server/openapi_bodies.h"

#include <gtest/gtest.h>

#include "text/regex.h"

namespace octavo {
namespace {

TEST(OpenApiBodies, ThePatternOfIdsIsTheirRange) {
  for (const int last : {0, 1, 9, 10, 99, 100, 511, 1000, 1099, 151935}) {
    const auto regex = Regex::compile(ids_pattern(last));
    ASSERT_TRUE(regex) << ids_pattern(last);
    RegexSearch search(*regex);
    const auto matches = [&](const std::string& text) { return search.find(text, 0)->has_value(); };
    for (int id = 0; id < 3000; ++id) EXPECT_EQ(matches(std::to_string(id)), id <= last) << id << " of " << last;
    for (const int id : {last - 1, last, last + 1, last + 10, 10 * last + 10, last - last % 10, last + 100})
      EXPECT_EQ(id >= 0 && matches(std::to_string(id)), id >= 0 && id <= last) << id << " of " << last;
    for (const char* text : {"", "00", "01", "-1", "1.0", " 1", "1 ", "+1", "1e1", "x"})
      EXPECT_FALSE(matches(text)) << text;
  }
}

}  // namespace
}  // namespace octavo
