// Backends of the first GPU for tests, and one that never keeps a recording: its decode steps are padded as those that
// are replayed, and computed anew each time.
#pragma once

#include "ops/backend.h"

namespace octavo::gpu {

BackendFactory factory(bool deterministic = false);
BackendFactory unrecorded_factory();

}  // namespace octavo::gpu
