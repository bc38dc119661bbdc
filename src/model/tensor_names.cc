#include "model/tensor_names.h"

#include <charconv>

namespace octavo {

std::string name_beside_towers(const std::string& name) {
  return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
}

std::optional<int> layer_of_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + kLayers.size());
  int layer = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), layer).ec != std::errc()) return std::nullopt;
  return layer;
}

}  // namespace octavo
