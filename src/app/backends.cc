#include "app/backends.h"

#include "base/log.h"
#include "cuda/backend.h"

namespace octavo {

BackendFactory backend_factory(const Options& options) {
  return [config = options.cpu, device = options.device](int rank) -> Result<std::unique_ptr<Backend>> {
    if (device != DeviceChoice::cpu) {
      Result<std::unique_ptr<Backend>> gpu = cuda::make_backend(rank);
      if (gpu || device == DeviceChoice::cuda) return gpu;
      log::info("no gpu", {{"because", gpu.error().message()}});
    }
    return cpu::make_backend(config);
  };
}

KernelInventory kernel_inventory() { return cuda::inventory(); }

}  // namespace octavo
