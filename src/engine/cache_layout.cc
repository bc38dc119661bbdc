#include "engine/cache_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kv/skip_layers.h"
#include "model/split.h"

namespace octavo {
namespace {

bool keeps_state(const LayerSpec& layer) { return layer.cache == CacheKind::state; }
bool owns_cache(const LayerSpec& layer) { return layer.cache != CacheKind::shared && !keeps_state(layer); }

// Equal but for fields that have no comparison of their own.
bool same_shape(const AttentionShape& a, const AttentionShape& b) {
  return a.format == b.format && a.q_heads == b.q_heads && a.page_size == b.page_size && a.window == b.window &&
         a.soft_cap == b.soft_cap && a.sinks == b.sinks;
}

bool takes_given_scale(const KvFormat& format) {
  return std::any_of(format.segments, format.segments + format.num_segments, [](const KvSegment& segment) {
    return segment.grain == KvGrain::tensor || segment.grain == KvGrain::head;
  });
}

AttentionShape shape_of(const LayerSpec& layer, const KvFormat& format, int page_size) {
  return {.format = format,
          .q_heads = layer.q_heads,
          .page_size = page_size,
          .window = layer.window,
          .soft_cap = layer.soft_cap,
          .sinks = layer.sinks};
}

LayerSpec layer_of_rank(const CacheLayoutInput& input, std::size_t index) {
  return heads_of_rank(input.spec.layers[index], {0, input.num_ranks});
}

Result<KvFormat> format_of(const CacheLayoutInput& input, std::size_t index, bool skipped) {
  const KvScales scales = index < input.scales.size() ? input.scales[index] : KvScales{};
  const KvElem compute = input.compute == DType::f32 ? KvElem::f32 : KvElem::bf16;
  return layer_format(layer_of_rank(input, index), skipped ? KvCacheChoice{} : input.choice, compute, scales)
      .in("the KV cache of layer " + std::to_string(index));
}

CacheGroup& group_for(CacheLayout& layout, const LayerSpec& layer, const AttentionShape& shape) {
  const Lifetime lifetime = layer.window > 0 ? Lifetime::window : Lifetime::full;
  for (CacheGroup& group : layout.groups)
    if (group.lifetime == lifetime && group.window == layer.window) return group;
  // The full group comes first, so that its pool's figures are always those of pool 0.
  const std::size_t at = lifetime == Lifetime::full ? 0 : layout.group_shapes.size();
  layout.group_shapes.insert(layout.group_shapes.begin() + static_cast<std::ptrdiff_t>(at), shape);
  CacheGroup group;
  group.lifetime = lifetime;
  group.window = layer.window;
  return *layout.groups.insert(layout.groups.begin() + static_cast<std::ptrdiff_t>(at), std::move(group));
}

void add_state(CacheLayout& layout, int index, const LayerSpec& layer) {
  check(!layer.state_parts.empty(), "a record has parts");
  const auto is_same = [&](const CacheGroup& group) {
    return group.lifetime == Lifetime::state && group.state_parts == layer.state_parts;
  };
  auto group = std::find_if(layout.groups.begin(), layout.groups.end(), is_same);
  if (group == layout.groups.end()) {
    group = layout.groups.insert(group, CacheGroup());
    group->lifetime = Lifetime::state;
    group->state_parts = layer.state_parts;
  }
  group->layers.push_back({index, KvFormat()});
}

std::int64_t state_bytes(const LayerSpec& layer) {
  return std::accumulate(layer.state_parts.begin(), layer.state_parts.end(), std::int64_t{0}) *
         static_cast<std::int64_t>(sizeof(float));
}

std::string scale_text(const LayerFacts& facts) {
  if (takes_given_scale(facts.format)) return "; scale " + std::string(name_of(facts.scale_source));
  return "";
}

// What a report line says of a layer, but for its number.
std::string layer_text(const LayerSpec& layer, const LayerFacts& facts, int num_ranks) {
  const std::string where = num_ranks == 1 ? "" : " on each of " + std::to_string(num_ranks) + " ranks";
  std::string text = layer.kind;
  if (layer.window > 0) text += " (window " + std::to_string(layer.window) + ")";
  if (keeps_state(layer))
    return text + ": float32 state of " + std::to_string(state_bytes(layer)) + " bytes a sequence" + where;
  if (!facts.has_cache) return text + ": reads the cache of layer " + std::to_string(layer.shared_with);
  return text + ": " + describe(facts.format) + scale_text(facts) + "; " +
         std::to_string(bytes_per_token(facts.format)) + " bytes a token" + where;
}

std::vector<std::string> report_lines(const CacheLayoutInput& input, const std::vector<LayerFacts>& layers) {
  const auto text_of = [&](std::size_t i) { return layer_text(input.spec.layers[i], layers[i], input.num_ranks); };
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < layers.size();) {
    const std::string text = text_of(begin);
    std::size_t end = begin + 1;
    while (end < layers.size() && text_of(end) == text) ++end;
    const std::string numbers = end == begin + 1 ? "layer " + std::to_string(begin)
                                                 : "layers " + std::to_string(begin) + "-" + std::to_string(end - 1);
    lines.push_back(numbers + " " + text);
    begin = end;
  }
  return lines;
}

Status add_layer(CacheLayout& layout, const CacheLayoutInput& input, std::size_t index, bool skipped) {
  const LayerSpec layer = layer_of_rank(input, index);
  LayerFacts facts;
  if (keeps_state(layer)) {
    add_state(layout, static_cast<int>(index), layer);
    layout.layers.push_back(facts);
    return {};
  }
  AttentionShape shape;
  if (owns_cache(layer)) {
    OCTAVO_TRY(facts.format, format_of(input, index, skipped));
    facts.has_cache = true;
    if (index < input.scales.size()) facts.scale_source = input.scales[index].source;
    shape = shape_of(layer, facts.format, input.page_size);
    group_for(layout, layer, shape).layers.push_back({static_cast<int>(index), facts.format});
    const bool scaled = takes_given_scale(facts.format);
    facts.per_head_scales = scaled && input.scales.size() > index && input.scales[index].per_head;
    if (scaled && facts.scale_source == ScaleSource::uncalibrated) ++layout.num_uncalibrated;
    if (!scaled && facts.scale_source != ScaleSource::uncalibrated) ++layout.num_unused_scales;
  } else {
    check(layer.shared_with >= 0 && static_cast<std::size_t>(layer.shared_with) < index,
          "a layer shares an earlier cache");
    shape = shape_of(layer, layout.layers[static_cast<std::size_t>(layer.shared_with)].format, input.page_size);
  }
  const auto same = [&](const AttentionShape& other) { return same_shape(shape, other); };
  if (std::none_of(layout.layer_shapes.begin(), layout.layer_shapes.end(), same)) layout.layer_shapes.push_back(shape);
  layout.layers.push_back(facts);
  return {};
}

}  // namespace

Result<KvFormat> layer_format(const LayerSpec& layer, const KvCacheChoice& choice, KvElem compute,
                              const KvScales& scales) {
  check(owns_cache(layer), "only a layer with a cache of its own has a format");
  if (layer.cache == CacheKind::latent)
    return latent_format(choice, compute, layer.latent_dim, layer.head_dim, !scales.key.empty());
  if (layer.value_dim != layer.head_dim)
    return Error("it has values of another width than its keys, which is not supported yet", ErrorKind::unsupported);
  return grouped_format(choice, compute, layer.kv_heads, layer.head_dim, scales.per_head);
}

Result<CacheLayout> make_cache_layout(const CacheLayoutInput& input) {
  const auto is_latent = [](const LayerSpec& layer) { return layer.cache == CacheKind::latent; };
  if (input.choice.rope && std::none_of(input.spec.layers.begin(), input.spec.layers.end(), is_latent))
    return Error("--kv-cache-rope-dtype is for models with a latent cache, and this one has none: leave it out");
  std::vector<std::string> kinds;
  for (const LayerSpec& layer : input.spec.layers) kinds.push_back(owns_cache(layer) ? layer.kind : "");
  OCTAVO_TRY(const std::vector<bool> skipped, parse_skip_layers(input.skip_layers, kinds));
  CacheLayout layout;
  for (std::size_t i = 0; i < input.spec.layers.size(); ++i) OCTAVO_TRY(add_layer(layout, input, i, skipped[i]));
  if (layout.group_shapes.empty()) return Error("the model has no layer that keeps a cache", ErrorKind::unsupported);
  layout.report = report_lines(input, layout.layers);
  return layout;
}

}  // namespace octavo
