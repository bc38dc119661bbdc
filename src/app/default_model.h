// The model that `octavo run` and `octavo serve` take when none is named.
#pragma once

#include <string>

#include "base/result.h"

namespace octavo {

// Its path in the cache folder, or where it was looked for and what fetches it.
Result<std::string> default_model_path(const std::string& octavo_cache);

}  // namespace octavo
