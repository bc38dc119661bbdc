#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "cuda/ceilings.h"
#include "cuda/check.h"
#include "cuda/cublaslt.h"
#include "cuda/numbers.cuh"

namespace octavo::cuda {

namespace {

constexpr std::size_t kReadBytes = std::size_t{2} << 30;  // far more than any cache on the chip
constexpr int kReadThreads = 512;
constexpr int kReadBlocks = 4096;
constexpr int kAhead = 8;  // loads on their way at once
constexpr std::int64_t kCeilingSide = 8192;
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr int kWarmUps = 3, kMeasurements = 9;
constexpr const char* kCeilingPurpose = "measuring ceilings";

__global__ void __launch_bounds__(kReadThreads) read_kernel(const uint4* data, std::int64_t count, std::uint32_t* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kReadThreads;
  std::uint32_t seen = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kReadThreads + threadIdx.x; i < count; i += kAhead * step) {
    uint4 loaded[kAhead] = {};
#pragma unroll
    for (int n = 0; n < kAhead; ++n)
      if (i + n * step < count) loaded[n] = __ldcs(data + i + n * step);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) seen |= loaded[n].x ^ loaded[n].y ^ loaded[n].z ^ loaded[n].w;
  }
  if (seen == 0x12345678u) *out = seen;  // keeps the loads; never mind whether it happens
}

// Random bits where `mask` has them, `bits` beside: numbers of an ordinary magnitude, whatever kind they are.
__global__ void fill_kernel(std::uint32_t* data, std::int64_t count, std::uint32_t mask, std::uint32_t bits) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B9u + mask;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    data[i] = ((x ^ x >> 16) & mask) | bits;
  }
}

double median_ms(cudaStream_t stream, const std::function<void()>& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < kWarmUps; ++i) work();
  std::array<float, kMeasurements> times{};
  for (float& time : times) {
    check(cudaEventRecord(begin, stream));
    work();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&time, begin, end));
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return times[kMeasurements / 2];
}

// y [side, side] bf16 = x W^T of this type, as the library's own choice computes it.
class SquareProduct {
 public:
  SquareProduct(const CublasLt& lt, cudaDataType_t type) : lt_(lt) {
    started_ = lt_.create(&handle_) == CUBLAS_STATUS_SUCCESS && describe(type);
  }
  SquareProduct(const SquareProduct&) = delete;
  SquareProduct& operator=(const SquareProduct&) = delete;
  ~SquareProduct() {
    if (preference_ != nullptr) lt_.preference_destroy(preference_);
    for (const cublasLtMatrixLayout_t layout : {input_, output_})
      if (layout != nullptr) lt_.layout_destroy(layout);
    if (desc_ != nullptr) lt_.desc_destroy(desc_);
    if (handle_ != nullptr) lt_.destroy(handle_);
  }

  bool started() const { return started_; }
  bool run(cudaStream_t stream, const std::byte* x, const std::byte* w, std::byte* y, std::byte* workspace) const {
    const float one = 1.0f, zero = 0.0f;
    return lt_.matmul(handle_, desc_, &one, w, input_, x, input_, &zero, y, output_, y, output_, &best_.algo, workspace,
                      kWorkspaceBytes, stream) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  bool describe(cudaDataType_t type) {
    const auto good = [](cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; };
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const std::size_t workspace = kWorkspaceBytes;
    int count = 0;
    return good(lt_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
           good(lt_.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed)) &&
           good(lt_.layout_create(&input_, type, kCeilingSide, kCeilingSide, kCeilingSide)) &&
           good(lt_.layout_create(&output_, CUDA_R_16BF, kCeilingSide, kCeilingSide, kCeilingSide)) &&
           good(lt_.preference_create(&preference_)) &&
           good(lt_.preference_set(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                   sizeof workspace)) &&
           good(lt_.heuristic(handle_, desc_, input_, input_, output_, output_, preference_, 1, &best_, &count)) &&
           count > 0 && best_.state == CUBLAS_STATUS_SUCCESS;
  }

  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t input_ = nullptr, output_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t best_{};
  bool started_ = false;
};

// TFLOP/s, or 0 where the library has no way.
double product_rate(CudaDevice& device, const CublasLt& lt, cudaDataType_t type, std::byte* memory,
                    std::byte* workspace) {
  const SquareProduct product(lt, type);
  if (!product.started()) return 0.0;
  const std::size_t apart = std::size_t{2} * kCeilingSide * kCeilingSide;
  bool good = true;
  const double ms = median_ms(device.stream(), [&] {
    good &= product.run(device.stream(), memory, memory + apart, memory + 2 * apart, workspace);
  });
  return good ? 2e-9 * static_cast<double>(kCeilingSide * kCeilingSide * kCeilingSide) / ms : 0.0;
}

}  // namespace

Result<Ceilings> measure_ceilings(CudaDevice& device) {
  OCTAVO_TRY(const CublasLt lt, open_cublaslt());
  OCTAVO_TRY(const Buffer memory, device.allocate(kReadBytes, kCeilingPurpose));
  OCTAVO_TRY(const Buffer workspace, device.allocate(kWorkspaceBytes, kCeilingPurpose));
  const cudaStream_t stream = device.stream();
  const auto fill = [&](std::uint32_t mask, std::uint32_t bits) {
    fill_kernel<<<1024, 256, 0, stream>>>(reinterpret_cast<std::uint32_t*>(memory.data()),
                                          static_cast<std::int64_t>(kReadBytes / 4), mask, bits);
    check_launch();
  };
  Ceilings found;
  fill(0x81FF81FFu, 0x3E003E00u);  // bf16 of magnitude 1/8 to 2
  const double read_ms = median_ms(stream, [&] {
    read_kernel<<<kReadBlocks, kReadThreads, 0, stream>>>(reinterpret_cast<const uint4*>(memory.data()),
                                                          static_cast<std::int64_t>(kReadBytes / sizeof(uint4)),
                                                          reinterpret_cast<std::uint32_t*>(workspace.data()));
    check_launch();
  });
  found.read_gb_s = 1e-6 * static_cast<double>(kReadBytes) / read_ms;
  found.bf16_tflop_s = product_rate(device, lt, CUDA_R_16BF, memory.data(), workspace.data());
  fill(0x9F9F9F9Fu, 0x20202020u);  // e4m3 of magnitude 1/8 to 2
  found.eight_bit_tflop_s = product_rate(device, lt, CUDA_R_8F_E4M3, memory.data(), workspace.data());
  if (found.bf16_tflop_s == 0.0)
    return Error("cuBLASLt has no product of bfloat16 for this GPU: install CUDA 13's libraries",
                 ErrorKind::unavailable);
  return found;
}

}  // namespace octavo::cuda
