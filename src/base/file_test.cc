#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace octavo {
namespace {

class File : public testing::Test {
 protected:
  File() : folder_(testing::TempDir() + "octavo_file_" + std::to_string(::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

TEST_F(File, WhatIsWrittenIsRead) {
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 300000u}) {
    std::string content(size, 'x');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7);
    ASSERT_TRUE(write_file(path("f"), content));
    const auto read = read_file(path("f"));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_TRUE(*read == content) << size;
    const auto mapped = MappedFile::open(path("f"));
    ASSERT_TRUE(mapped) << mapped.error().message();
    EXPECT_EQ(mapped->bytes().size(), size);
  }
}

TEST_F(File, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "1 2 3", 5), 5);
  ::close(ends[1]);
  const auto read = read_file("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, "1 2 3");
}

TEST_F(File, WhatCannotBeMappedIsNamedForWhatItIs) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(path("loop"), path("loop"));
  const std::pair<std::string, std::string> cases[] = {
      {path("fifo"), "a pipe"},
      {path(""), "a directory"},
      {"/dev/null", "a device"},
      {path("loop"), "Too many levels of symbolic links"},
      {path("none"), "No such file or directory"},
  };
  for (const auto& [name, mention] : cases) {
    const auto mapped = MappedFile::open(name);
    ASSERT_FALSE(mapped) << name;
    EXPECT_TRUE(mapped.error().message().starts_with(name + ": ")) << mapped.error().message();
    EXPECT_NE(mapped.error().message().find(mention), std::string::npos) << mapped.error().message();
  }
}

TEST_F(File, WhatCannotBeReadIsAnError) {
  EXPECT_FALSE(read_file(path("")));
  EXPECT_FALSE(read_file(path("none")));
}

}  // namespace
}  // namespace octavo
