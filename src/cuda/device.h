// CudaDevice: one GPU as a device: a stream, memory with an account by purpose, pinned staging for copies, graphs.
//
// upload() has taken the bytes when it returns; download() is complete. A recording is a CUDA graph: work that cannot
// be captured is an error that says so. Refuses, in one sentence each: no driver, no GPU, compute capability below 8.0,
// memory that is not there.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/parallel.h"
#include "cuda/download.h"
#include "tensor/device.h"

namespace octavo::cuda {

// Owned by the device and by every buffer, which may outlive it.
class MemoryAccount;

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> create(int index);
  ~CudaDevice() override;

  cudaStream_t stream() const { return stream_; }
  int capability() const { return capability_; }  // 10 * major + minor

  std::string describe() const override { return description_; }
  MemoryInfo memory() const override;
  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override;
  void fill_zero(std::byte* data, std::size_t bytes) override;
  void fill_random(std::byte* to, const RandomMatrix& matrix) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       const std::string& purpose) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  std::unique_ptr<Download> begin_download(const std::byte* from, std::size_t bytes) override {
    return downloads_.begin(stream_, from, bytes);
  }
  void synchronize() override;
  bool asynchronous() const override { return true; }
  Status status() const override;
  Result<std::unique_ptr<Recording>> record(std::function<void()> work) override;

  std::string account() const;  // "14.9 GiB weights, 80.0 GiB the KV cache, ..."

 private:
  CudaDevice() = default;
  Status start(int index);
  std::byte* next_staging(std::size_t bytes);
  void copy_to_staging(std::byte* to, std::span<const std::byte> from);

  // Two halves of pinned memory: one is filled while the other's copies run.
  static constexpr std::size_t kHalfBytes = std::size_t{8} << 20;
  struct Half {
    std::byte* data = nullptr;
    cudaEvent_t copied = nullptr;
  };

  std::string description_;
  int capability_ = 0;
  cudaStream_t stream_ = nullptr;
  std::array<Half, 2> halves_;
  std::size_t half_ = 0, used_ = 0;
  std::unique_ptr<ThreadPool> copiers_;  // from the first large copy on
  DownloadPool downloads_;
  std::shared_ptr<MemoryAccount> account_;
  // Small adopted pieces share one allocation, in order: parts of one weight then lie side by side.
  std::shared_ptr<Buffer> slab_;
  std::size_t slab_used_ = 0;
};

}  // namespace octavo::cuda
