#include "server/access.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace octavo {
namespace {

Access make(AccessConfig config) {
  auto access = Access::create(std::move(config));
  EXPECT_TRUE(access) << access.error().message();
  return *std::move(access);
}

TEST(Access, WithoutKeysEverythingIsOpen) {
  EXPECT_TRUE(make({}).allows("/v1/models", ""));
  EXPECT_FALSE(make({}).guarded());
}

TEST(Access, AKeyGuardsAllButTheProbes) {
  const Access access = make({.keys = {"one", "two-longer"}, .open_routes = {"/tokenize"}});
  for (const char* open : {"/health", "/ping", "/live", "/ready", "/version", "/get_load", "/metrics", "/tokenize"})
    EXPECT_TRUE(access.allows(open, "")) << open;
  for (const char* guarded : {"/v1/models", "/v1/chat/completions", "/detokenize", "/tokenizer_info", "/load",
                              "/server_info", "/abort_requests", "/reset_prefix_cache", "/nowhere"}) {
    EXPECT_FALSE(access.allows(guarded, "")) << guarded;
    for (const char* wrong : {"Bearer", "Bearer ", "Bearer on", "Bearer onee", "Bearer ONE", "Basic one", "one"})
      EXPECT_FALSE(access.allows(guarded, wrong)) << guarded << " " << wrong;
    EXPECT_TRUE(access.allows(guarded, "Bearer one"));
    EXPECT_TRUE(access.allows(guarded, "bearer two-longer"));
  }
}

TEST(Access, MetricsMayHaveAKeyOfTheirOwn) {
  const Access access = make({.keys = {"k"}, .metrics_key = "m"});
  EXPECT_FALSE(access.allows("/metrics", ""));
  EXPECT_TRUE(access.allows("/metrics", "Bearer m"));
  EXPECT_TRUE(access.allows("/metrics", "Bearer k"));
  EXPECT_FALSE(access.allows("/v1/models", "Bearer m"));
}

TEST(Access, TheKeyFileIsReadAnewAndABadOneKeepsTheOldKeys) {
  const std::string path = testing::TempDir() + "octavo_keys";
  ASSERT_TRUE(write_file(path, "# staff\n first \n\nsecond\n"));
  Access access = make({.key_file = path});
  EXPECT_TRUE(access.allows("/v1/models", "Bearer first"));
  EXPECT_FALSE(access.allows("/v1/models", "Bearer # staff"));
  ASSERT_TRUE(write_file(path, "third\n"));
  ASSERT_TRUE(access.reload());
  EXPECT_FALSE(access.allows("/v1/models", "Bearer first"));
  EXPECT_TRUE(access.allows("/v1/models", "Bearer third"));
  ASSERT_TRUE(write_file(path, "\n"));
  EXPECT_FALSE(access.reload());
  EXPECT_TRUE(access.allows("/v1/models", "Bearer third"));
  EXPECT_FALSE(Access::create({.key_file = path + ".absent"}));
  EXPECT_FALSE(Access::create({.keys = {" "}}));
}

TEST(Access, ThePageIsOpenAndNothingThatOnlyLooksLikeIt) {
  const auto access = Access::create({.keys = {"secret"}});
  ASSERT_TRUE(access);
  for (const char* path : {"/", "/page/main.js", "/favicon.ico"}) EXPECT_TRUE(access->allows(path, "")) << path;
  for (const char* path : {"/page", "/pages", "/v1/models", "/recent", "//", "/v1/page/x"})
    EXPECT_FALSE(access->allows(path, "")) << path;
}

}  // namespace
}  // namespace octavo
