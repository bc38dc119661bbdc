#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/mapped_ranges.h"

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

int sum(std::span<const std::byte> bytes) {
  int result = 0;
  for (const std::byte byte : bytes) result += static_cast<int>(byte);
  return result;
}

constexpr std::size_t kSeveralPages = 20000;

TEST_F(File, AFileThatShrinksWhileItIsMappedIsNamed) {
  for (const std::size_t left : {std::size_t{0}, std::size_t{5000}}) {
    ASSERT_TRUE(write_file(path("a"), std::string(kSeveralPages, 'x')));
    ASSERT_TRUE(write_file(path("b"), std::string(kSeveralPages, 'y')));
    auto other = MappedFile::open(path("b"));
    auto mapped = MappedFile::open(path("a"));
    ASSERT_TRUE(mapped && other);
    const MappedFile moved = *std::move(mapped);
    std::filesystem::resize_file(path("a"), left);
    EXPECT_EXIT(
        {
          end_when_mapped_files_shrink();
          sum(other->bytes());
          sum(moved.bytes());
        },
        testing::ExitedWithCode(1), "^octavo: " + path("a") + ": became shorter");
  }
}

// Not ours: the program ends as it would without a handler.
TEST_F(File, AnyOtherBusErrorEndsTheProgramAsUsual) {
  ASSERT_TRUE(write_file(path("a"), std::string(kSeveralPages, 'x')));
  auto closed = MappedFile::open(path("a"));
  ASSERT_TRUE(closed);
  { const MappedFile gone = *std::move(closed); }
  const int file = ::open(path("a").c_str(), O_RDONLY);
  void* const bytes = ::mmap(nullptr, kSeveralPages, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  ASSERT_NE(bytes, MAP_FAILED);
  std::filesystem::resize_file(path("a"), 0);
  const std::span<const std::byte> mapped(static_cast<const std::byte*>(bytes), kSeveralPages);
  EXPECT_EXIT(end_when_mapped_files_shrink(); sum(mapped), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(end_when_mapped_files_shrink(); ::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
  ::munmap(bytes, kSeveralPages);
}

TEST_F(File, MappingsComeAndGo) {
  ASSERT_TRUE(write_file(path("a"), std::string(kSeveralPages, 'x')));
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(MappedFile::open(path("a")));  // more than are named at one time
  auto last = MappedFile::open(path("a"));
  ASSERT_TRUE(last);
  std::filesystem::resize_file(path("a"), 0);
  EXPECT_EXIT(end_when_mapped_files_shrink(); sum(last->bytes()), testing::ExitedWithCode(1), "became shorter");
}

TEST_F(File, WhatCannotBeWrittenLeavesNothing) {
  std::filesystem::create_directories(path("folder/inside"));
  EXPECT_FALSE(write_file(path("folder"), "text"));
  EXPECT_FALSE(write_file(path("none/file"), "text"));
  EXPECT_FALSE(file_exists(path("folder.partial")));
  EXPECT_TRUE(directory_exists(path("folder/inside")));
}

TEST_F(File, WhatCannotBeReadIsAnError) {
  EXPECT_FALSE(read_file(path("")));
  EXPECT_FALSE(read_file(path("none")));
}

}  // namespace
}  // namespace octavo
