#include "base/result.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace octavo {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error("odd", ErrorKind::unsupported);
  return n / 2;
}

Result<int> quarter(int n) {
  OCTAVO_TRY(const int h, half(n));
  OCTAVO_TRY(int q, half(h).in("second half"));
  return q;
}

Status only_even(int n) {
  OCTAVO_TRY(half(n));
  return {};
}

Result<std::unique_ptr<int>> boxed(int n) {
  OCTAVO_TRY(only_even(n));
  OCTAVO_TRY(const auto pairs, Result<std::map<int, int>>(std::map<int, int>{{1, n}, {2, n}}));
  return std::make_unique<int>(pairs.at(1));
}

TEST(Result, TryPassesValuesAndErrorsWithTheirContext) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().message(), "odd");
  EXPECT_EQ(quarter(6).error().message(), "second half: odd");
  EXPECT_EQ(quarter(6).error().kind(), ErrorKind::unsupported);
  EXPECT_TRUE(only_even(2));
  EXPECT_FALSE(only_even(1));
  EXPECT_EQ(**boxed(4), 4);
}

}  // namespace
}  // namespace octavo
