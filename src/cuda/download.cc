#include "cuda/download.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/check.h"

namespace octavo::cuda {
namespace {

constexpr std::size_t kSmallest = 4096;  // tokens of a step: slots then serve each other

struct Slot {
  std::byte* data = nullptr;
  std::size_t size = 0;
  cudaEvent_t arrived = nullptr;
};

Slot make_slot(std::size_t bytes) {
  Slot slot{.size = std::max(bytes, kSmallest)};
  check(cudaMallocHost(reinterpret_cast<void**>(&slot.data), slot.size));
  check(cudaEventCreateWithFlags(&slot.arrived, cudaEventDisableTiming));
  return slot;
}

}  // namespace

struct DownloadPool::Slots {
  std::vector<Slot> free;

  ~Slots() {
    for (const Slot& slot : free) {
      cudaEventDestroy(slot.arrived);
      cudaFreeHost(slot.data);
    }
  }
  Slot take(std::size_t bytes) {
    const auto fits = [bytes](const Slot& slot) { return slot.size >= bytes; };
    const auto found = std::find_if(free.begin(), free.end(), fits);
    if (found == free.end()) return make_slot(bytes);
    const Slot slot = *found;
    free.erase(found);
    return slot;
  }
};

class DownloadPool::PinnedDownload final : public Download {
 public:
  PinnedDownload(std::shared_ptr<Slots> slots, Slot slot, std::size_t bytes)
      : slots_(std::move(slots)), slot_(slot), bytes_(bytes) {}
  ~PinnedDownload() override {
    cudaEventSynchronize(slot_.arrived);  // the copy must not land in another's bytes
    slots_->free.push_back(slot_);
  }
  std::span<const std::byte> wait() override {
    check(cudaEventSynchronize(slot_.arrived));
    return {slot_.data, bytes_};
  }

 private:
  std::shared_ptr<Slots> slots_;
  Slot slot_;
  std::size_t bytes_;
};

DownloadPool::DownloadPool() : slots_(std::make_shared<Slots>()) {}

std::unique_ptr<Download> DownloadPool::begin(cudaStream_t stream, const std::byte* from, std::size_t bytes) {
  const Slot slot = slots_->take(bytes);
  check(cudaMemcpyAsync(slot.data, from, bytes, cudaMemcpyDeviceToHost, stream));
  check(cudaEventRecord(slot.arrived, stream));
  return std::make_unique<PinnedDownload>(slots_, slot, bytes);
}

}  // namespace octavo::cuda
