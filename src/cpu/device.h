// CpuDevice: the host's own memory as a device. Every call has finished when it returns; a recording is a kept closure.
// allocate() refuses what exceeds the memory that is really there (cpu/memory.h), earlier allocations that nobody has
// touched yet counted as taken: the system's promise of more is not relied on.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "cpu/memory.h"
#include "tensor/device.h"

namespace octavo::cpu {

class CpuDevice final : public Device {
 public:
  using Account = std::shared_ptr<std::atomic<std::size_t>>;  // bytes allocated

  // `machine` says what is left at the moment; tests put their own in its place. Devices of one machine may share an
  // account, so that each knows what the others have taken.
  explicit CpuDevice(
      std::string description, std::function<MemoryInfo()> machine = [] { return read_memory(); },
      Account account = std::make_shared<std::atomic<std::size_t>>(0))
      : description_(std::move(description)), machine_(std::move(machine)), allocated_(std::move(account)) {}

  std::string describe() const override { return description_; }
  MemoryInfo memory() const override;

  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override;
  void fill_zero(std::byte* data, std::size_t bytes) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       const std::string& purpose) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void synchronize() override {}
  Result<std::unique_ptr<Recording>> record(std::function<void()> work) override;

 private:
  std::string description_;
  std::function<MemoryInfo()> machine_;
  Account allocated_;  // the buffers', which may outlive the device, too
};

}  // namespace octavo::cpu
