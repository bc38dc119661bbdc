#include "tensor/device.h"

#include <vector>

namespace octavo {
namespace {

class DownloadedBytes final : public Download {
 public:
  explicit DownloadedBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::span<const std::byte> wait() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<Download> Device::begin_download(const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  download(copy, from);
  return std::make_unique<DownloadedBytes>(std::move(copy));
}

}  // namespace octavo
