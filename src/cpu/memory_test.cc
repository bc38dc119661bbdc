#include "cpu/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace octavo::cpu {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

// A machine of 8 GiB, 6 of them available, whose files the test writes below a folder of its own.
class Memory : public testing::Test {
 protected:
  Memory()
      : root_(testing::TempDir() + "octavo_memory_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\nMemAvailable:    6291456 kB\n");
  }
  ~Memory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  std::string root_;
};

TEST_F(Memory, TheMachineWithoutGroups) {
  const MemoryInfo info = read_memory(root_);
  EXPECT_EQ(info.total_bytes, 8 * kGiB);
  EXPECT_EQ(info.available_bytes, 6 * kGiB);
}

TEST_F(Memory, AGroupOfVersion2LimitsAndDropsItsFileCache) {
  write("/proc/self/cgroup", "0::/service/octavo\n");
  write("/sys/fs/cgroup/service/octavo/memory.max", "4294967296\n");
  write("/sys/fs/cgroup/service/octavo/memory.current", "3221225472\n");
  write("/sys/fs/cgroup/service/octavo/memory.stat", "anon 5\ninactive_file 1073741824\n");
  const MemoryInfo info = read_memory(root_);
  EXPECT_EQ(info.total_bytes, 4 * kGiB);
  EXPECT_EQ(info.available_bytes, 2 * kGiB);
}

TEST_F(Memory, AGroupAboveLimitsToo) {
  write("/proc/self/cgroup", "0::/service/octavo\n");
  write("/sys/fs/cgroup/service/octavo/memory.max", "max\n");
  write("/sys/fs/cgroup/service/octavo/memory.current", "5\n");
  write("/sys/fs/cgroup/service/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/service/memory.current", "2073741824\n");
  EXPECT_EQ(read_memory(root_).available_bytes, 0u) << "more used than allowed";
}

TEST_F(Memory, AContainerSeesItsLimitAtTheMount) {
  write("/proc/self/cgroup", "0::/a/path/that/is/not/here\n");
  write("/sys/fs/cgroup/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(read_memory(root_).available_bytes, kGiB);
}

TEST_F(Memory, AGroupOfVersion1) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/box\n");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(read_memory(root_).available_bytes, kGiB);
}

TEST_F(Memory, BrokenFilesSetNoLimit) {
  write("/proc/self/cgroup", "\n:\nno colons\n0::\n4:memory:relative\n0::/x\n");
  write("/sys/fs/cgroup/x/memory.max", "many\n");
  write("/sys/fs/cgroup/x/memory.current", "");
  EXPECT_EQ(read_memory(root_).available_bytes, 6 * kGiB);
}

TEST(MemoryHere, IsPlausible) {
  const MemoryInfo info = read_memory();
  EXPECT_GT(info.total_bytes, std::size_t{16} << 20);
  EXPECT_LE(info.available_bytes, info.total_bytes);
}

}  // namespace
}  // namespace octavo::cpu
