#include "tool/inspect.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/strings.h"
#include "engine/cache_layout.h"
#include "engine/text_assets.h"
#include "model/split.h"
#include "terminal/console.h"

namespace octavo {
namespace {

// MXFP4 lies in a safetensors file as bytes: two numbers each in "..._blocks", powers of two in "..._scales". Packed
// integers lie in words of eight.
std::string stored_kind(const StoredTensor& tensor) {
  if (tensor.dtype == DType::u8 && tensor.name.ends_with("_blocks")) return "e2m1";
  if (tensor.dtype == DType::u8 && tensor.name.ends_with("_scales")) return "e8m0";
  if (tensor.dtype == DType::i32 && tensor.name.ends_with(".weight_packed")) return "int4";
  return std::string(dtype_info(tensor.dtype).name);
}

// Numbers that a stored one stands for.
std::int64_t numbers_of(const std::string& kind) { return kind == "e2m1" ? 2 : kind == "int4" ? 8 : kind != "e8m0"; }

OrderedJson describe_weights(const Checkpoint& checkpoint) {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
  OrderedJson by_dtype = OrderedJson::object();
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    std::int64_t count = 1;
    for (const std::int64_t n : tensor.shape) count *= n;
    const auto size = static_cast<std::int64_t>(tensor.bytes.size());
    const std::string dtype = stored_kind(tensor);
    parameters += numbers_of(dtype) * count;
    bytes += size;
    by_dtype[dtype] = by_dtype.value(dtype, std::int64_t{0}) + size;
  }
  return {{"tensors", checkpoint.tensors().size()},
          {"numbers", parameters},
          {"bytes", bytes},
          {"bytes_by_dtype", by_dtype}};
}

// Where KV scales were found, by the file's own names.
OrderedJson describe_scales(const Checkpoint& checkpoint, const std::vector<KvScales>& scales) {
  std::set<std::string> endings;
  std::string first;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    std::string prefix;
    if (!is_kv_scale_name(tensor.name, &prefix)) continue;
    endings.insert(tensor.name.substr(prefix.size() + 1));
    if (first.empty()) first = tensor.name + " in " + tensor.file;
  }
  const auto given = [](const KvScales& layer) { return layer.source == ScaleSource::checkpoint; };
  const auto layers = std::count_if(scales.begin(), scales.end(), given);
  if (layers == 0) return nullptr;
  const bool per_head = std::any_of(scales.begin(), scales.end(), [](const KvScales& layer) { return layer.per_head; });
  return {{"layers", layers}, {"names", endings}, {"first", first}, {"grain", per_head ? "per KV head" : "per tensor"}};
}

// Bytes of one token in all layers that keep it as long as its sequence lives, and in those with a window.
OrderedJson kv_bytes(const ModelSpec& spec, const std::vector<KvScales>& scales) {
  OrderedJson table = OrderedJson::object();
  for (const char* dtype : {"float32", "bfloat16", "fp8", "fp8_e5m2", "int8", "int8:fp8"}) {
    const KvCacheChoice choice = *parse_kv_cache_dtype(dtype);
    std::int64_t full = 0;
    std::int64_t window = 0;
    for (std::size_t i = 0; i < spec.layers.size(); ++i) {
      const LayerSpec& layer = spec.layers[i];
      if (layer.cache == CacheKind::shared || layer.cache == CacheKind::state) continue;
      const auto format = layer_format(layer, choice, KvElem::bf16, scales[i]);
      if (format) (layer.window > 0 ? window : full) += bytes_per_token(*format);
    }
    if (full + window > 0) table[dtype] = full;
    if (window > 0) table[std::string(dtype) + ", layers with a window"] = window;
  }
  return table;
}

// What the layers that attend have: one number, or a list in order of appearance.
OrderedJson of_layers(const ModelSpec& spec, int LayerSpec::*size) {
  OrderedJson values = OrderedJson::array();
  for (const LayerSpec& layer : spec.layers)
    if (const OrderedJson value = layer.*size;
        layer.cache != CacheKind::state && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return values.size() == 1 ? values.front() : values;
}

// Layers that keep a record of fixed size for each sequence, whatever the cache's dtype.
void add_states(const ModelSpec& spec, OrderedJson& report) {
  std::int64_t layers = 0;
  std::int64_t numbers = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.cache != CacheKind::state) continue;
    ++layers;
    numbers = std::accumulate(layer.state_parts.begin(), layer.state_parts.end(), numbers);
  }
  if (layers == 0) return;
  report["layers_with_a_state"] = layers;
  report["state_bytes_per_sequence"] = numbers * static_cast<std::int64_t>(sizeof(float));
}

void add_sizes(const ModelSpec& spec, OrderedJson& report) {
  report["family"] = spec.family;
  report["architecture"] = spec.architecture;
  report["stored_dtype"] = spec.stored_dtype;
  report["quantization"] = spec.quantization.scheme == WeightScheme::none ? "none" : spec.quantization.description;
  report["layers"] = spec.layers.size();
  report["hidden_size"] = spec.hidden;
  report["q_heads"] = of_layers(spec, &LayerSpec::q_heads);
  report["kv_heads"] = of_layers(spec, &LayerSpec::kv_heads);
  report["head_dim"] = of_layers(spec, &LayerSpec::head_dim);
  if (const OrderedJson latent = of_layers(spec, &LayerSpec::latent_dim); latent != 0) report["latent_dim"] = latent;
  report["vocab_size"] = spec.vocab;
  report["tied_head"] = spec.tied;
  report["rope"] = spec.rope;
  report["context_length"] = spec.max_positions;
  const auto sliding =
      std::count_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& l) { return l.window > 0; });
  if (sliding > 0) report["layers_with_a_window"] = sliding;
  const auto widest = std::max_element(spec.layers.begin(), spec.layers.end(),
                                       [](const LayerSpec& a, const LayerSpec& b) { return a.window < b.window; });
  if (sliding > 0) report["window"] = widest->window;
  const auto sharing = std::count_if(spec.layers.begin(), spec.layers.end(),
                                     [](const LayerSpec& l) { return l.cache == CacheKind::shared; });
  if (sharing > 0) report["layers_that_read_another_cache"] = sharing;
  add_states(spec, report);
  if (spec.experts > 0) report["experts"] = spec.experts;
  if (spec.experts > 0) report["experts_per_token"] = spec.experts_per_token;
  report["bos_token_id"] = spec.bos ? OrderedJson(*spec.bos) : OrderedJson(nullptr);
  report["eos_token_ids"] = spec.eos;
}

// Binds every weight and adds what only the tensors tell.
Status add_model(Model& model, const Checkpoint& checkpoint, Device& device, OrderedJson& report) {
  const ModelSpec& spec = model.spec();
  add_sizes(spec, report);
  std::vector<KvScales> scales(spec.layers.size());
  if (checkpoint.format() != LoadFormat::dummy) {
    CheckpointBinder binder(checkpoint, spec.quantization, model.names(), device, {});
    OCTAVO_TRY(model.visit(binder));
    OCTAVO_TRY(binder.finish());
    scales = model.kv_scales();
    report["weights"] = describe_weights(checkpoint);
  }
  report["kv_bytes_per_token"] = kv_bytes(spec, scales);
  report["kv_scales"] = describe_scales(checkpoint, scales);
  return {};
}

// What the first of several ranks has of the model; the others have as much. Binding finds what cannot be shared.
Status add_rank(const InspectOptions& options, const Checkpoint& checkpoint, Device& device, OrderedJson& report) {
  const RankOf rank{0, options.tensor_parallel};
  OCTAVO_TRY(const auto model, make_model(checkpoint, options.overrides, rank));
  ModelSpec spec = model->spec();
  for (LayerSpec& layer : spec.layers) layer = heads_of_rank(layer, rank);
  OrderedJson share;
  share["q_heads"] = of_layers(spec, &LayerSpec::q_heads);
  share["kv_heads"] = of_layers(spec, &LayerSpec::kv_heads);
  std::vector<KvScales> scales(spec.layers.size());
  if (checkpoint.format() != LoadFormat::dummy) {
    CheckpointBinder binder(checkpoint, spec.quantization, model->names(), device, rank);
    OCTAVO_TRY(model->visit(binder));
    scales = model->kv_scales();
    std::size_t bytes = 0;
    for (const Buffer& buffer : binder.take_buffers()) bytes += buffer.size();
    share["weight_bytes"] = bytes;
  }
  add_states(spec, share);
  const OrderedJson table = kv_bytes(spec, scales);
  for (const auto& [dtype, bytes] : table.items()) share["kv bytes per token, " + dtype] = bytes;
  report["each_of_" + std::to_string(rank.size) + "_ranks"] = share;
  return {};
}

// What a config says of a model that octavo cannot run, as far as it says it in the usual words.
void add_unsupported(const Checkpoint& checkpoint, OrderedJson& report, OrderedJson& reasons) {
  const Json& config = checkpoint.config();
  if (const Json* names = find_member(config, "architectures"))
    report["architecture"] = OrderedJson::parse(to_text(*names));
  const Json* text = find_member(config, "text_config");
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                          "vocab_size", "max_position_embeddings"}) {
    const Json* value = find_member(config, key);
    if (value == nullptr && text != nullptr) value = find_member(*text, key);
    if (value != nullptr) report[key] = OrderedJson::parse(to_text(*value));
  }
  if (const auto quantization = read_quantization(config); !quantization)
    if (quantization.error().message() != reasons.back()) reasons.push_back(quantization.error().message());
  report["weights"] = describe_weights(checkpoint);
}

// Words may be missing without harm to the rest; what is there but broken is an error.
Status add_words(const Checkpoint& checkpoint, const std::string& chat_template, OrderedJson& report) {
  const Result<Tokenizer> tokenizer = load_tokenizer(checkpoint);
  if (!tokenizer && tokenizer.error().kind() != ErrorKind::not_found) return tokenizer.error();
  report["tokenizer"] = tokenizer ? OrderedJson(tokenizer->description()) : OrderedJson(nullptr);
  const Result<TemplateAsset> asset = load_chat_template(checkpoint, chat_template);
  if (!asset && asset.error().kind() != ErrorKind::not_found) return asset.error();
  report["chat_template"] = nullptr;
  if (asset)
    report["chat_template"] = asset->source + ", " + std::to_string(asset->chat_template.source().size()) + " bytes";
  return {};
}

std::string plain(const OrderedJson& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return to_text(value);
  std::vector<std::string> items;
  for (const OrderedJson& item : value) items.push_back(plain(item));
  return items.empty() ? "none" : join(items, ", ");
}

std::string as_text(const OrderedJson& report) {
  std::string text;
  for (const auto& [key, value] : report.items()) {
    std::string label = key;
    std::replace(label.begin(), label.end(), '_', ' ');
    label.resize(std::max<std::size_t>(label.size() + 1, 22), ' ');
    if (!value.is_object()) {
      text += label + plain(value) + "\n";
      continue;
    }
    text += label.substr(0, label.find_last_not_of(' ') + 1) + "\n";
    for (const auto& [inner, item] : value.items()) {
      std::string name = "  " + inner;
      name.resize(std::max<std::size_t>(name.size() + 1, 22), ' ');
      text += name + plain(item) + "\n";
    }
  }
  return text;
}

}  // namespace

Status inspect(const InspectOptions& options, const BackendFactory& make_backends) {
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open(options.model_path, options.load_format));
  OCTAVO_TRY(const auto backends, make_backends(options.tensor_parallel));
  Device& device = backends.front()->device();
  OrderedJson report;
  report["model"] = options.model_path;
  report["format"] = checkpoint.gguf() != nullptr               ? "gguf"
                     : checkpoint.format() == LoadFormat::dummy ? "config only"
                                                                : "safetensors";

  OrderedJson unsupported = OrderedJson::array();
  Result<std::unique_ptr<Model>> model = make_model(checkpoint, options.overrides);
  if (model) {
    OCTAVO_TRY(add_model(**model, checkpoint, device, report));
    if (options.tensor_parallel > 1) OCTAVO_TRY(add_rank(options, checkpoint, device, report));
  } else if (model.error().kind() == ErrorKind::unsupported) {
    unsupported.push_back(model.error().message());
    add_unsupported(checkpoint, report, unsupported);
  } else {
    return model.error();
  }
  OCTAVO_TRY(add_words(checkpoint, options.chat_template, report));
  report["not_supported"] = unsupported;
  return write_stdout(options.json ? to_text(report) + "\n" : as_text(report));
}

}  // namespace octavo
