// Downloads of a GPU: pinned memory that a copy goes to, and the event that tells of its arrival. Both are used again
// when the download is no longer held.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tensor/device.h"

namespace octavo::cuda {

class DownloadPool {
 public:
  DownloadPool();
  std::unique_ptr<Download> begin(cudaStream_t stream, const std::byte* from, std::size_t bytes);

 private:
  struct Slots;
  class PinnedDownload;
  std::shared_ptr<Slots> slots_;  // shared with downloads, which may outlive the pool
};

}  // namespace octavo::cuda
