#include "model/windows.h"

#include "base/strings.h"
#include "model/config.h"

namespace octavo {

Result<std::vector<int>> windows_of_types(const Json& types, int num_layers, int window) {
  std::vector<int> windows(static_cast<std::size_t>(num_layers), 0);
  if (!types.is_array() || types.size() != windows.size())
    return Error("\"layer_types\" must be a list of " + std::to_string(num_layers) + " names, one a layer");
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::string kind = types[i].is_string() ? types[i].get<std::string>() : to_text(types[i]);
    if (kind == "sliding_attention")
      windows[i] = window;
    else if (kind != "full_attention")
      return Error("\"layer_types\" holds " + in_quotes(kind) + "; known: full_attention, sliding_attention");
  }
  return windows;
}

Result<std::vector<int>> windows_if_told(const Json& config, int num_layers) {
  std::vector<int> windows(static_cast<std::size_t>(num_layers), 0);
  OCTAVO_TRY(const bool sliding, read_flag(config, "use_sliding_window", false));
  if (!sliding) return windows;
  OCTAVO_TRY(const int window, read_count(config, "sliding_window", 1, 1 << 28));
  if (const Json* types = find_member(config, "layer_types")) return windows_of_types(*types, num_layers, window);
  OCTAVO_TRY(const int first, read_count(config, "max_window_layers", 0, 1 << 20, num_layers));
  for (int i = first; i < num_layers; ++i) windows[static_cast<std::size_t>(i)] = window;
  return windows;
}

}  // namespace octavo
