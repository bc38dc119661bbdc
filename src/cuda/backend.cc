#include "cuda/backend.h"

#include <string>
#include <utility>

#include "cuda/attention.h"
#include "cuda/ceilings.h"
#include "cuda/device.h"
#include "cuda/kernel_rows.h"
#include "cuda/ops.h"

namespace octavo::cuda {

namespace {

constexpr std::int32_t kPageSize = 64;  // tokens: the kernels' tile
constexpr int kLargestRecorded = 256;   // sequences: beyond, launches cost little beside the work

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<CudaDevice> device, std::unique_ptr<CudaOps> ops)
      : device_(std::move(device)), ops_(std::move(ops)) {}

  Device& device() override { return *device_; }
  Ops& ops() override { return *ops_; }
  Comm& comm() override { return comm_; }
  Status supports(const AttentionShape& shape) const override;
  Status supports_compute(DType compute) const override;
  KernelInventory inventory() const override { return list_kernels(); }
  Result<double> run_row(const std::string& name, const KernelWork& work) override {
    return cuda::run_row(*device_, *ops_, name, work);
  }
  Result<Ceilings> ceilings() override { return measure_ceilings(*device_); }
  int recorded_batch(int num_seqs) const override;

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaOps> ops_;
  SingleRank comm_;
};

Status CudaBackend::supports(const AttentionShape& shape) const {
  if (shape.page_size != kPageSize)
    return Error("a page of " + std::to_string(shape.page_size) + " tokens is not served on a GPU: use --block-size " +
                     std::to_string(kPageSize),
                 ErrorKind::unsupported);
  return cuda::supports(shape);
}

Status CudaBackend::supports_compute(DType compute) const {
  if (compute == DType::bf16) return {};
  return Error("activations of " + std::string(compute == DType::f32 ? "float32" : dtype_info(compute).name) +
                   " are not computed on a GPU: use --dtype bfloat16, or --device cpu",
               ErrorKind::unsupported);
}

// 1, 2, 4, 8, then multiples of 8, 16 and 32: a recording takes memory.
int CudaBackend::recorded_batch(int num_seqs) const {
  if (num_seqs > kLargestRecorded) return 0;
  if (num_seqs <= 4) return num_seqs == 3 ? 4 : num_seqs;
  const int step = num_seqs <= 32 ? 8 : num_seqs <= 128 ? 16 : 32;
  return (num_seqs + step - 1) / step * step;
}

}  // namespace

KernelInventory inventory() { return list_kernels(); }

Result<std::unique_ptr<Backend>> make_backend(int rank, const Config& config) {
  OCTAVO_TRY(auto device, CudaDevice::create(rank));
  OCTAVO_TRY(auto ops, CudaOps::create(*device, config.deterministic));
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(std::move(device), std::move(ops)));
}

}  // namespace octavo::cuda
