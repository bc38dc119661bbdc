// The only place that names both wings.
#pragma once

#include "app/options.h"

namespace octavo {

BackendFactory backend_factory(const Options& options);

// The table of kernels that this program brings, with or without a GPU.
KernelInventory kernel_inventory();

}  // namespace octavo
