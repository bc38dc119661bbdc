#include "app/backends.h"

#include "base/log.h"
#include "cuda/backend.h"

namespace octavo {

BackendFactory backend_factory(const Options& options) {
  const cuda::Config gpu_config{.deterministic = options.engine.deterministic};
  return [config = options.cpu, gpu_config, device = options.device](int rank) -> Result<std::unique_ptr<Backend>> {
    if (device != DeviceChoice::cpu) {
      Result<std::unique_ptr<Backend>> gpu = cuda::make_backend(rank, gpu_config);
      if (gpu || device == DeviceChoice::cuda) return gpu;
      log::info("no gpu", {{"because", gpu.error().message()}});
    }
    return cpu::make_backend(config);
  };
}

KernelInventory kernel_inventory() { return cuda::inventory(); }

}  // namespace octavo
