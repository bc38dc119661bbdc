// Which layers see a window of their past only, as config.json says it. 0: the layer sees all.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace octavo {

// From "layer_types": sliding_attention or full_attention for each layer; another name is refused.
Result<std::vector<int>> windows_of_types(const Json& types, int num_layers, int window);

// Layers slide only where "use_sliding_window" is true: as "layer_types" says, else from "max_window_layers" on.
Result<std::vector<int>> windows_if_told(const Json& config, int num_layers);

}  // namespace octavo
