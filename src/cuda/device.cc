#include "cuda/device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "cuda/check.h"
#include "cuda/random_fill.h"

namespace octavo::cuda {

class MemoryAccount {
 public:
  void add(const std::string& purpose, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[purpose] += bytes;
  }
  void remove(const std::string& purpose, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[purpose] -= bytes;
  }
  std::size_t total() const {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [purpose, bytes] : bytes_) sum += bytes;
    return sum;
  }
  std::string describe() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [purpose, bytes] : bytes_)
      if (bytes > 0) text += (text.empty() ? "" : ", ") + human_bytes(bytes) + " for " + purpose;
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> bytes_;
};

namespace {

constexpr int kLowestCapability = 80;  // bf16 matrix products begin here
constexpr std::size_t kSlabBytes = std::size_t{256} << 20;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSliceBytes = std::size_t{256} << 10;  // of a large copy, a thread's at a time
constexpr int kMostCopiers = 8;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Graph final : public Recording {
 public:
  Graph(cudaGraphExec_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {}
  ~Graph() override { cudaGraphExecDestroy(graph_); }
  void replay() override { check(cudaGraphLaunch(graph_, stream_)); }

 private:
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
};

Error unusable(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return Error(
          "no NVIDIA driver that serves CUDA 13 is installed: install driver 580 or newer, or use --device cpu",
          ErrorKind::unavailable);
    case cudaErrorNoDevice:
      return Error("no NVIDIA GPU is visible to this process: use --device cpu", ErrorKind::unavailable);
    default:
      return Error(std::string("the NVIDIA GPU cannot be used: ") + cudaGetErrorString(status) + "; use --device cpu",
                   ErrorKind::unavailable);
  }
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(int index) {
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice());
  OCTAVO_TRY(device->start(index));
  return device;
}

Status CudaDevice::start(int index) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) return unusable(status);
  if (index >= count)
    return Error("GPU " + std::to_string(index) + " was asked for, but there are " + std::to_string(count),
                 ErrorKind::unavailable);
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess)
    return unusable(status);
  capability_ = properties.major * 10 + properties.minor;
  if (capability_ < kLowestCapability)
    return Error(std::string(properties.name) + " has compute capability " + std::to_string(properties.major) + "." +
                     std::to_string(properties.minor) + "; octavo needs 8.0 or higher: use --device cpu",
                 ErrorKind::unsupported);
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  for (Half& half : halves_) {
    if (status == cudaSuccess) status = cudaMallocHost(reinterpret_cast<void**>(&half.data), kHalfBytes);
    if (status == cudaSuccess) status = cudaEventCreateWithFlags(&half.copied, cudaEventDisableTiming);
  }
  if (status != cudaSuccess) return unusable(status);
  account_ = std::make_shared<MemoryAccount>();
  description_ = std::string(properties.name) + ", " + human_bytes(properties.totalGlobalMem) +
                 ", compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
  return {};
}

CudaDevice::~CudaDevice() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  slab_.reset();
  for (const Half& half : halves_) {
    if (half.copied != nullptr) cudaEventDestroy(half.copied);
    if (half.data != nullptr) cudaFreeHost(half.data);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

MemoryInfo CudaDevice::memory() const {
  MemoryInfo info{.held_bytes = account_->total(), .dedicated = true};
  check(cudaMemGetInfo(&info.available_bytes, &info.total_bytes));
  return info;
}

std::string CudaDevice::account() const { return account_->describe(); }

Result<Buffer> CudaDevice::allocate(std::size_t bytes, const std::string& purpose) {
  void* data = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const cudaError_t status = cudaMalloc(&data, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this one is not sticky, and was answered here
    const std::string held = account();
    return Error("cannot allocate " + human_bytes(bytes) + " for " + purpose + ": " +
                     human_bytes(memory().available_bytes) + " available on the GPU" +
                     (held.empty() ? "" : "; this process holds " + held),
                 ErrorKind::exhausted);
  }
  check(status);
  account_->add(purpose, size);
  return Buffer(static_cast<std::byte*>(data), bytes, [size, purpose, account = account_](std::byte* pointer) {
    account->remove(purpose, size);
    cudaFree(pointer);
  });
}

void CudaDevice::fill_zero(std::byte* data, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(data, 0, bytes, stream_));
}

void CudaDevice::fill_random(std::byte* to, const RandomMatrix& matrix) { cuda::fill_random(stream_, to, matrix); }

Result<Buffer> CudaDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<const void>,
                                 const std::string& purpose) {
  const std::size_t size = aligned(bytes.size());
  if (size > kSlabBytes / 2) {
    OCTAVO_TRY(Buffer own, allocate(bytes.size(), purpose));
    upload(own.data(), bytes);
    return own;
  }
  if (!slab_ || slab_used_ + size > slab_->size()) {
    OCTAVO_TRY(Buffer slab, allocate(kSlabBytes, purpose));
    slab_ = std::make_shared<Buffer>(std::move(slab));
    slab_used_ = 0;
  }
  std::byte* const to = slab_->data() + slab_used_;
  slab_used_ += size;
  upload(to, bytes);
  return Buffer(to, bytes.size(), [slab = slab_](std::byte*) {});
}

// Room for the next copy's bytes (at most one half), free of copies still under way.
std::byte* CudaDevice::next_staging(std::size_t bytes) {
  if (used_ + bytes > kHalfBytes) {
    check(cudaEventRecord(halves_[half_].copied, stream_));
    half_ = 1 - half_;
    used_ = 0;
    check(cudaEventSynchronize(halves_[half_].copied));
  }
  std::byte* const place = halves_[half_].data + used_;
  used_ += bytes;
  return place;
}

// Large pieces by several threads, which also take the page faults of a mapped file: while they fill one half, the
// other is on its way to the GPU.
void CudaDevice::copy_to_staging(std::byte* to, std::span<const std::byte> from) {
  if (from.size() < 2 * kSliceBytes) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  if (!copiers_) copiers_ = std::make_unique<ThreadPool>(std::min(kMostCopiers, available_cpus()));
  const std::size_t slices = (from.size() + kSliceBytes - 1) / kSliceBytes;
  copiers_->run(static_cast<std::int64_t>(slices), [&](std::int64_t i) {
    const std::size_t first = static_cast<std::size_t>(i) * kSliceBytes;
    std::memcpy(to + first, from.data() + first, std::min(kSliceBytes, from.size() - first));
  });
}

void CudaDevice::upload(std::byte* to, std::span<const std::byte> from) {
  while (!from.empty()) {
    const std::size_t count = std::min(from.size(), kHalfBytes);
    std::byte* const staging = next_staging(count);
    copy_to_staging(staging, from.first(count));
    check(cudaMemcpyAsync(to, staging, count, cudaMemcpyHostToDevice, stream_));
    to += count;
    from = from.subspan(count);
  }
}

void CudaDevice::download(std::span<std::byte> to, const std::byte* from) {
  while (!to.empty()) {
    const std::size_t count = std::min(to.size(), kHalfBytes);
    std::byte* const staging = next_staging(count);
    check(cudaMemcpyAsync(staging, from, count, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    std::memcpy(to.data(), staging, count);
    to = to.subspan(count);
    from += count;
  }
}

void CudaDevice::synchronize() { check(cudaStreamSynchronize(stream_)); }

Status CudaDevice::status() const {
  const cudaError_t status = cudaStreamQuery(stream_);
  if (!is_lasting(status)) return {};
  return Error(std::string("the GPU has failed: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) +
                   "); nothing can be computed on it until octavo is started again",
               ErrorKind::unavailable);
}

// The run before the capture is the one that counts; it also loads kernels and makes plans, which a capture cannot.
Result<std::unique_ptr<Recording>> CudaDevice::record(std::function<void()> work) {
  work();
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  work();
  cudaGraph_t graph = nullptr;
  cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  cudaGraphExec_t executable = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return Error(std::string("the work of a step cannot be captured as a CUDA graph: ") + cudaGetErrorString(status),
                 ErrorKind::unsupported);
  }
  return std::unique_ptr<Recording>(std::make_unique<Graph>(executable, stream_));
}

}  // namespace octavo::cuda
