#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

TEST(ModelPath, TakesWhatExists) {
  const TemporaryDirectory d;
  const std::string file = d.write("x.gguf", "GGUF");
  EXPECT_EQ(*resolve_model_path(d.path(), {}), d.path());
  EXPECT_EQ(*resolve_model_path(file, {}), file);
}

TEST(ModelPath, FindsTheSnapshotInTheHubCache) {
  const TemporaryDirectory hub;
  hub.write("models--org--name.v1/refs/main", "abc123\n");
  hub.write("models--org--name.v1/snapshots/abc123/config.json", "{}");
  hub.write("models--org--name.v1/snapshots/old/config.json", "{}");
  hub.write("models--plain/snapshots/only/config.json", "{}");
  EXPECT_EQ(*resolve_model_path("org/name.v1", {hub.path()}), hub.path("models--org--name.v1/snapshots/abc123"));
  EXPECT_EQ(*resolve_model_path("plain", {hub.path()}), hub.path("models--plain/snapshots/only"));
}

TEST(ModelPath, SaysWhatWasLookedForAndWhere) {
  const TemporaryDirectory hub;
  hub.write("models--o--gone/refs/main", "abc");
  hub.write("models--o--evil/refs/main", "../../..");
  hub.write("models--o--empty/refs/x", "");
  hub.write("models--o--two/snapshots/a/config.json", "");
  hub.write("models--o--two/snapshots/b/config.json", "");
  std::filesystem::create_symlink(hub.path("loop"), hub.path("loop"));
  ASSERT_EQ(::mkfifo(hub.path("fifo").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty"},
      {std::string("a\0b", 3), "NUL"},
      {"org/none", "no " + hub.path("models--org--none")},
      {"/no/such/place", "no such directory or .gguf file. Nothing is downloaded"},
      {"../up", "no such directory or .gguf file. Nothing is downloaded"},
      {"a/b/c", "no such directory or .gguf file. Nothing is downloaded"},
      {"none.gguf", "no such directory or .gguf file. Nothing is downloaded"},
      {"o/gone", "snapshots/abc: the revision that refs/main names is not in the cache"},
      {"o/evil", "\"../../..\" is not a revision"},
      {"o/empty", "download is not complete"},
      {"o/two", "2 snapshots; give the path of one"},
      {hub.path("loop"), "cannot be read: Too many levels of symbolic links"},
      {hub.path("fifo"), "is a pipe, a socket or a device"},
      {"/dev/null", "is a pipe, a socket or a device"},
  };
  for (const auto& [model, expected] : cases) {
    const auto path = resolve_model_path(model, {hub.path()});
    ASSERT_FALSE(path) << model;
    EXPECT_NE(path.error().message().find(expected), std::string::npos) << path.error().message();
  }
  EXPECT_NE(message_of(resolve_model_path("o/n", {})).find("HF_HUB_CACHE"), std::string::npos);
}

}  // namespace
}  // namespace octavo
