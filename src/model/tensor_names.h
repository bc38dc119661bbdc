// What families read in the names of a checkpoint's tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace octavo {

// The text part's tensors where a file with towers keeps them behind "model.language_model.".
std::string name_beside_towers(const std::string& name);

// The number behind "layers."; nullopt: the name has none.
std::optional<int> layer_of_name(std::string_view name);

}  // namespace octavo
