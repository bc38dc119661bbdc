#include "cpu/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"

namespace octavo::cpu {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class KeptClosure final : public Recording {
 public:
  explicit KeptClosure(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

MemoryInfo CpuDevice::memory() const {
  MemoryInfo info = machine_();
  const std::size_t allocated = allocated_->load();
  const std::size_t resident = resident_bytes();
  const std::size_t untouched = allocated > resident ? allocated - resident : 0;
  info.available_bytes -= std::min(info.available_bytes, untouched);
  return info;
}

Result<Buffer> CpuDevice::allocate(std::size_t bytes, const std::string& purpose) {
  const auto refusal = [&](std::size_t available) {
    return Error(
        "cannot allocate " + human_bytes(bytes) + " for " + purpose + ": " + human_bytes(available) + " available",
        ErrorKind::exhausted);
  };
  if (bytes >= kHugePage) {  // small ones are not worth reading /proc
    if (const std::size_t available = memory().available_bytes; bytes > available) return refusal(available);
  }
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t size = round_up(bytes == 0 ? 1 : bytes, kAlignment);
  void* data = std::aligned_alloc(alignment, round_up(size, alignment));
  if (data == nullptr) return refusal(memory().available_bytes);
  if (bytes >= kHugePage) madvise(data, size, MADV_HUGEPAGE);
  allocated_->fetch_add(size);
  return Buffer(static_cast<std::byte*>(data), bytes, [size, allocated = allocated_](std::byte* pointer) {
    allocated->fetch_sub(size);
    std::free(pointer);
  });
}

void CpuDevice::fill_zero(std::byte* data, std::size_t bytes) {
  // Whole pages of private memory are given back to the kernel, which hands them out zeroed when they are touched.
  const std::size_t begin = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t first = round_up(begin, kHugePage);
  const std::size_t last = (begin + bytes) / kHugePage * kHugePage;
  if (first < last && madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) == 0) {
    std::memset(data, 0, first - begin);
    std::memset(reinterpret_cast<void*>(last), 0, begin + bytes - last);
  } else if (bytes > 0) {
    std::memset(data, 0, bytes);
  }
}

Result<Buffer> CpuDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                const std::string&) {
  return Buffer(const_cast<std::byte*>(bytes.data()), bytes.size(), [owner = std::move(owner)](std::byte*) {});
}

void CpuDevice::upload(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void CpuDevice::download(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

Result<std::unique_ptr<Recording>> CpuDevice::record(std::function<void()> work) {
  work();
  return std::unique_ptr<Recording>(std::make_unique<KeptClosure>(std::move(work)));
}

}  // namespace octavo::cpu
