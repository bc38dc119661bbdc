#include "kv/skip_layers.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/strings.h"

namespace octavo {
namespace {

Error refused(std::string_view piece, const std::string& why) {
  return Error("--kv-cache-dtype-skip-layers " + in_quotes(piece) + ": " + why);
}

std::string kinds_that_exist(std::span<const std::string> layer_kinds) {
  std::vector<std::string> kinds;
  for (const std::string& kind : layer_kinds)
    if (!kind.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  return kinds.empty() ? "none" : join(kinds, ", ");
}

std::string what_exists(std::span<const std::string> layer_kinds) {
  return "this model has layers 0 to " + std::to_string(layer_kinds.size() - 1) + " and the kinds " +
         kinds_that_exist(layer_kinds);
}

// "3" or "-1" as an index from the front.
Result<std::size_t> parse_index(std::string_view text, std::string_view piece,
                                std::span<const std::string> layer_kinds) {
  const auto count = static_cast<std::int64_t>(layer_kinds.size());
  const auto index = parse_int(text);
  if (!index) return refused(piece, in_quotes(text) + " is no layer; " + what_exists(layer_kinds));
  if (*index < -count || *index >= count)
    return refused(piece, "there is no layer " + std::to_string(*index) + "; " + what_exists(layer_kinds));
  return static_cast<std::size_t>(*index < 0 ? *index + count : *index);
}

Status add_kind(std::string_view piece, std::span<const std::string> layer_kinds, std::vector<bool>& skipped) {
  std::string name = lower(piece);
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "sliding_attention") name = "sliding_window";  // both spellings are in use for the same layers
  bool found = false;
  for (std::size_t i = 0; i < layer_kinds.size(); ++i) {
    if (layer_kinds[i] != name) continue;
    skipped[i] = found = true;
  }
  if (!found) return refused(piece, "no layer is of this kind; " + what_exists(layer_kinds));
  return {};
}

Status add_range(std::string_view piece, std::span<const std::string> layer_kinds, std::vector<bool>& skipped) {
  const auto dash = piece.find('-', 1);  // a sign may stand first
  OCTAVO_TRY(const std::size_t first, parse_index(piece.substr(0, dash), piece, layer_kinds));
  std::size_t last = first;
  if (dash != std::string_view::npos) {
    OCTAVO_TRY(last, parse_index(piece.substr(dash + 1), piece, layer_kinds));
    if (last < first) return refused(piece, "the range ends before it begins");
  }
  bool any = false;
  for (std::size_t i = first; i <= last; ++i) {
    if (layer_kinds[i].empty()) continue;
    skipped[i] = any = true;
  }
  if (!any) return refused(piece, "no layer there keeps a cache of its own, so there is nothing to skip");
  return {};
}

}  // namespace

Result<std::vector<bool>> parse_skip_layers(std::span<const std::string> values,
                                            std::span<const std::string> layer_kinds) {
  std::vector<bool> skipped(layer_kinds.size(), false);
  if (layer_kinds.empty()) return skipped;
  for (const std::string& value : values) {
    const auto pieces = split(value, ", \t");
    if (pieces.empty()) return refused(value, "a layer is missing; " + what_exists(layer_kinds));
    for (const std::string_view piece : pieces) {
      const bool is_name = std::isalpha(static_cast<unsigned char>(piece.front())) != 0;
      OCTAVO_TRY(is_name ? add_kind(piece, layer_kinds, skipped) : add_range(piece, layer_kinds, skipped));
    }
  }
  return skipped;
}

}  // namespace octavo
