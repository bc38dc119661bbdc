// Backends of the first GPU for tests, and one that never keeps a recording: its decode steps are padded as those that
// are replayed, and computed anew each time.
#pragma once

#include "tests/golden/fixture.h"

namespace octavo::gpu {

BackendFactory factory(bool deterministic = false);
BackendFactory unrecorded_factory();

// A golden's checkpoint in the GPU's own numbers, with no more of the GPU's memory than it needs: other processes test
// beside this one.
EngineConfig engine_config(const std::string& folder);

}  // namespace octavo::gpu
