// The default model for tests: where its file lies, and its golden's greedy answers. One body for each wing.
#pragma once

#include <string>

#include "base/json.h"
#include "engine/engine.h"

namespace octavo::golden {

// Named by OCTAVO_DEFAULT_MODEL, or where scripts/demo puts it.
std::string default_model();

// Expects the golden's greedy tokens from the engine, to the first margin that rounding may cross.
void expect_greedy(Engine& engine, const Json& chats);

}  // namespace octavo::golden
