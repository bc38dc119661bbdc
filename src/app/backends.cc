#include "app/backends.h"

#include "base/log.h"
#include "cuda/backend.h"

namespace octavo {

namespace {

using Backends = Result<std::vector<std::unique_ptr<Backend>>>;

Error no_gpu_ranks(int num_ranks) {
  return Error("--tensor-parallel-size " + std::to_string(num_ranks) +
                   " is not served with --device cuda yet: use --device cpu, where ranks are threads, or one rank",
               ErrorKind::unsupported);
}

}  // namespace

BackendFactory backend_factory(const Options& options) {
  const cuda::Config gpu_config{.deterministic = options.engine.deterministic};
  return [config = options.cpu, gpu_config, device = options.device](int num_ranks) -> Backends {
    if (device == DeviceChoice::cpu) return cpu::make_backends(config, num_ranks);
    if (device == DeviceChoice::cuda && num_ranks > 1) return no_gpu_ranks(num_ranks);
    Result<std::unique_ptr<Backend>> gpu = cuda::make_backend(0, gpu_config);
    if (gpu && num_ranks > 1) return no_gpu_ranks(num_ranks);
    if (gpu) return only_rank(*std::move(gpu));
    if (device == DeviceChoice::cuda) return gpu.error();
    log::info("no gpu", {{"because", gpu.error().message()}});
    return cpu::make_backends(config, num_ranks);
  };
}

KernelInventory kernel_inventory() { return cuda::inventory(); }

}  // namespace octavo
