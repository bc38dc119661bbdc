#include "model/gemma4_config.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/shown.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxHeads = 1024;
constexpr int kMaxHeadDim = 1024;

std::string_view kind_name(bool slides) { return slides ? "sliding_attention" : "full_attention"; }

Status read_kinds(const Json& config, int num_layers, std::vector<Gemma4Layer>& layers) {
  const Json* types = find_member(config, "layer_types");
  if (types == nullptr) return Error("\"layer_types\" is missing", ErrorKind::not_found);
  if (!types->is_array() || types->size() != static_cast<std::size_t>(num_layers))
    return Error("\"layer_types\" must be a list of " + std::to_string(num_layers) + " names");
  for (const Json& type : *types) {
    const std::string kind = type.is_string() ? type.get<std::string>() : to_text(type);
    if (kind != kind_name(true) && kind != kind_name(false))
      return Error("\"layer_types\" holds " + in_quotes(kind) + "; known: full_attention, sliding_attention",
                   ErrorKind::unsupported);
    layers.push_back({.slides = kind == kind_name(true)});
  }
  if (layers.back().slides) return Error("\"layer_types\" must end with full_attention");
  return {};
}

// The published dialect: one size for each kind.
Status read_sizes_by_kind(const Json& config, Gemma4Config& result) {
  OCTAVO_TRY(const int head_dim, read_count(config, "head_dim", 2, kMaxHeadDim));
  OCTAVO_TRY(const int kv_heads, read_count(config, "num_key_value_heads", 1, kMaxHeads));
  OCTAVO_TRY(const bool value_is_key, read_flag(config, "attention_k_eq_v", false));
  OCTAVO_TRY(const int full_kv_heads, read_count(config, "num_global_key_value_heads", 1, kMaxHeads, kv_heads));
  const bool by_layer = find_member(config, "per_layer_config") != nullptr;
  if (!by_layer && find_member(config, "global_head_dim") == nullptr)
    return Error("\"global_head_dim\" or \"per_layer_config\" is missing: the heads' size in full layers is not told",
                 ErrorKind::not_found);
  OCTAVO_TRY(const int full_head_dim, read_count(config, "global_head_dim", 2, kMaxHeadDim, head_dim));
  for (Gemma4Layer& layer : result.layers) {
    layer.head_dim = layer.slides ? head_dim : full_head_dim;
    layer.value_is_key = value_is_key && !layer.slides;
    layer.kv_heads = layer.value_is_key ? full_kv_heads : kv_heads;
  }
  return {};
}

// The newer dialect: what differs, by the layer's number.
Status read_sizes_by_layer(const Json& config, Gemma4Config& result) {
  const Json* table = find_member(config, "per_layer_config");
  if (table == nullptr) return {};
  if (!table->is_object()) return Error("\"per_layer_config\" must be an object, but is " + shown(*table));
  for (const auto& [number, changes] : table->items()) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index >= result.layers.size())
      return Error("\"per_layer_config\" holds " + in_quotes(number) + ", which is no layer: there are " +
                   std::to_string(result.layers.size()));
    const std::string where = "\"per_layer_config\" of layer " + number;
    if (!changes.is_object()) return Error(where + " must be an object, but is " + shown(changes));
    for (const auto& [key, value] : changes.items())
      if (key != "head_dim" && key != "num_key_value_heads")
        return Error(where + ": " + in_quotes(key) + " is not supported; supported: head_dim, num_key_value_heads",
                     ErrorKind::unsupported);
    Gemma4Layer& layer = result.layers[index];
    OCTAVO_TRY(layer.head_dim, read_count(changes, "head_dim", 2, kMaxHeadDim, layer.head_dim).in(where));
    OCTAVO_TRY(layer.kv_heads, read_count(changes, "num_key_value_heads", 1, kMaxHeads, layer.kv_heads).in(where));
  }
  return {};
}

Status check_heads(const Gemma4Config& config) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const Gemma4Layer& layer = config.layers[i];
    const std::string where = "layer " + std::to_string(i);
    if (layer.head_dim % 2 != 0)
      return Error(where + ": \"head_dim\" must be even, but is " + std::to_string(layer.head_dim));
    if (config.q_heads % layer.kv_heads != 0)
      return Error(where + ": \"num_attention_heads\" " + std::to_string(config.q_heads) +
                   " is not a multiple of its " + std::to_string(layer.kv_heads) + " KV heads");
    // Layers of one kind share a plan of attention, and some of them a cache.
    const auto first = std::find_if(config.layers.begin(), config.layers.end(),
                                    [&](const Gemma4Layer& other) { return other.slides == layer.slides; });
    if (layer.head_dim != first->head_dim || layer.kv_heads != first->kv_heads)
      return Error(where + ": its heads differ in size or number from those of other layers of kind " +
                       std::string(kind_name(layer.slides)),
                   ErrorKind::unsupported);
  }
  return {};
}

// The last layers read the cache of the last layer of their kind before them.
Status read_sharing(const Json& config, Gemma4Config& result) {
  const int num_layers = static_cast<int>(result.layers.size());
  OCTAVO_TRY(const int sharing, read_count(config, "num_kv_shared_layers", 0, num_layers - 1));
  OCTAVO_TRY(const bool double_wide, read_flag(config, "use_double_wide_mlp", false));
  OCTAVO_TRY(const int intermediate, read_count(config, "intermediate_size", 1, kMaxWidth));
  const int first = num_layers - sharing;
  int owner[2] = {-1, -1};
  for (int i = 0; i < num_layers; ++i) {
    Gemma4Layer& layer = result.layers[static_cast<std::size_t>(i)];
    layer.intermediate = i >= first && double_wide ? 2 * intermediate : intermediate;
    if (i < first) {
      owner[layer.slides] = i;
      continue;
    }
    layer.shared_with = owner[layer.slides];
    if (layer.shared_with < 0)
      return Error("\"num_kv_shared_layers\" " + std::to_string(sharing) + ": layer " + std::to_string(i) + " is " +
                   std::string(kind_name(layer.slides)) + ", and no layer before layer " + std::to_string(first) +
                   " is: it has no cache to share");
  }
  return {};
}

Result<RopeConfig> read_rope_of(const Json& config, bool slides, int max_positions) {
  const std::string kind(kind_name(slides));
  const Json* all = find_member(config, "rope_parameters");
  if (all == nullptr) return Error("\"rope_parameters\" is missing", ErrorKind::not_found);
  const Json* own = all->is_object() ? find_member(*all, kind) : nullptr;
  if (own == nullptr || !own->is_object())
    return Error("\"rope_parameters\" must hold an object \"" + kind +
                 "\": this family has a rope for each kind of layer");
  return read_rope(Json{{"rope_parameters", *own}}, max_positions, slides ? 1e4 : 1e6)
      .in("\"rope_parameters\" of " + kind);
}

Status check_supported(const Json& config) {
  OCTAVO_TRY(const auto activation, find_string(config, "hidden_activation"));
  if (activation && *activation != "gelu_pytorch_tanh")
    return Error("\"hidden_activation\" " + in_quotes(*activation) + " is not supported; supported: gelu_pytorch_tanh",
                 ErrorKind::unsupported);
  OCTAVO_TRY(const bool experts, read_flag(config, "enable_moe_block", false));
  if (experts) return Error("\"enable_moe_block\" true is not supported for this family", ErrorKind::unsupported);
  const Json* bidirectional = find_member(config, "use_bidirectional_attention");
  if (bidirectional != nullptr && *bidirectional != Json("vision") && *bidirectional != Json(false))
    return Error("\"use_bidirectional_attention\" " + shown(*bidirectional) +
                     " is not supported: text is read forwards; supported: \"vision\"",
                 ErrorKind::unsupported);
  return {};
}

Status read_per_layer_inputs(const Json& config, Gemma4Config& result) {
  OCTAVO_TRY(result.per_layer_width, read_count(config, "hidden_size_per_layer_input", 0, 1 << 16));
  OCTAVO_TRY(result.per_layer_vocab, read_count(config, "vocab_size_per_layer_input", 1, 1 << 24, result.vocab));
  if (result.per_layer_width > 0 && result.per_layer_vocab < result.vocab)
    return Error("\"vocab_size_per_layer_input\" " + std::to_string(result.per_layer_vocab) +
                     " is less than \"vocab_size\" " + std::to_string(result.vocab) + ", which is not supported",
                 ErrorKind::unsupported);
  return {};
}

}  // namespace

int Gemma4Config::first_sharing() const {
  const auto first =
      std::find_if(layers.begin(), layers.end(), [](const Gemma4Layer& l) { return l.shared_with >= 0; });
  return static_cast<int>(first - layers.begin());
}

Result<Gemma4Config> read_gemma4_config(const Json& config) {
  Gemma4Config result;
  OCTAVO_TRY(check_supported(config));
  OCTAVO_TRY(result.hidden, read_count(config, "hidden_size", 1, kMaxWidth));
  OCTAVO_TRY(result.vocab, read_count(config, "vocab_size", 1, 1 << 24));
  OCTAVO_TRY(result.q_heads, read_count(config, "num_attention_heads", 1, kMaxHeads));
  OCTAVO_TRY(result.max_positions, read_count(config, "max_position_embeddings", 1, 1 << 28));
  OCTAVO_TRY(const double eps, read_number(config, "rms_norm_eps", 0, 1, 1e-6));
  result.norm_eps = static_cast<float>(eps);
  OCTAVO_TRY(result.bias, read_flag(config, "attention_bias", false));
  OCTAVO_TRY(result.tied, read_flag(config, "tie_word_embeddings", true));
  OCTAVO_TRY(const double cap, read_number(config, "final_logit_softcapping", 0, 1e6, 0));
  result.logit_cap = static_cast<float>(cap);
  OCTAVO_TRY(const int num_layers, read_count(config, "num_hidden_layers", 1, 1024));
  OCTAVO_TRY(read_kinds(config, num_layers, result.layers));
  OCTAVO_TRY(read_sizes_by_kind(config, result));
  OCTAVO_TRY(read_sizes_by_layer(config, result));
  OCTAVO_TRY(check_heads(result));
  OCTAVO_TRY(read_sharing(config, result));
  OCTAVO_TRY(read_per_layer_inputs(config, result));
  OCTAVO_TRY(result.full_rope, read_rope_of(config, false, result.max_positions));
  if (std::any_of(result.layers.begin(), result.layers.end(), [](const Gemma4Layer& l) { return l.slides; })) {
    OCTAVO_TRY(result.window, read_count(config, "sliding_window", 1, 1 << 28));
    OCTAVO_TRY(result.sliding_rope, read_rope_of(config, true, result.max_positions));
  }
  return result;
}

}  // namespace octavo
