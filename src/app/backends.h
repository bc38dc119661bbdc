// The only place that names both wings.
#pragma once

#include "app/options.h"

namespace octavo {

BackendFactory backend_factory(const Options& options);

}  // namespace octavo
