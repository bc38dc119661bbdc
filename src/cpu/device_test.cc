#include "cpu/device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace octavo::cpu {
namespace {

TEST(CpuDevice, AllocatesAlignedMemory) {
  CpuDevice device("a test");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{65}, std::size_t{3} << 20}) {
    auto buffer = device.allocate(bytes, "numbers");
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
    if (bytes > 0) std::memset(buffer->data(), 1, bytes);
    device.fill_zero(buffer->data(), bytes);
    for (std::size_t i = 0; i < bytes; i += 61) EXPECT_EQ(buffer->data()[i], std::byte{0});
  }
}

TEST(CpuDevice, RefusesWhatDoesNotFitWithTheSizes) {
  CpuDevice device("a test");
  for (const std::size_t bytes : {device.memory().total_bytes + 1, std::numeric_limits<std::size_t>::max()}) {
    const auto buffer = device.allocate(bytes, "the KV cache");
    ASSERT_FALSE(buffer.has_value());
    EXPECT_EQ(buffer.error().kind(), ErrorKind::exhausted);
    EXPECT_EQ(buffer.error().message().find("cannot allocate "), 0u) << buffer.error().message();
    EXPECT_NE(buffer.error().message().find(" for the KV cache: "), std::string::npos);
    EXPECT_NE(buffer.error().message().find(" available"), std::string::npos);
  }
}

// The system hands out more than there is; memory that was promised to a buffer is not promised twice.
TEST(CpuDevice, UntouchedAllocationsAreTaken) {
  CpuDevice device("a test", [] { return MemoryInfo{std::size_t{2} << 30, std::size_t{1} << 30}; });
  const std::size_t most = std::size_t{640} << 20;
  auto first = device.allocate(most, "half");
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(device.allocate(most, "the other half").has_value());
  first = Buffer();
  EXPECT_TRUE(device.allocate(most, "half").has_value());
}

TEST(CpuDevice, BuffersMayOutliveTheDevice) {
  Buffer buffer;
  {
    CpuDevice device("a test");
    buffer = device.allocate(100, "numbers").value();
  }
  buffer = Buffer();
}

TEST(CpuDevice, AdoptKeepsTheOwnerAndCopiesNothing) {
  CpuDevice device("a test");
  auto owner = std::make_shared<std::vector<std::byte>>(100, std::byte{7});
  const std::weak_ptr<std::vector<std::byte>> watched = owner;
  const std::byte* data = owner->data() + 1;
  {
    const std::span<const std::byte> bytes(data, 99);
    const Buffer buffer = device.adopt(bytes, std::move(owner), "a weight").value();
    EXPECT_EQ(buffer.data(), data);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(CpuDevice, RecordsRunOnceAndReplay) {
  CpuDevice device("a test");
  int runs = 0;
  const auto recording = device.record([&] { ++runs; }).value();
  EXPECT_EQ(runs, 1);
  recording->replay();
  recording->replay();
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace octavo::cpu
