#include "checkpoint/quantization.h"

#include <array>
#include <optional>
#include <utility>

#include "base/shown.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr const char* kSupported =
    "octavo reads bf16, f16 and f32 weights, FP8 as compressed-tensors (float-quantized), as quant_method fp8 or as "
    "modelopt FP8, symmetric int4 in groups of 32 as compressed-tensors (pack-quantized), experts in MXFP4 as "
    "quant_method mxfp4, and GGUF files in Q4_0, Q4_1 and Q8_0";

Error refused(const std::string& what) {
  return Error("quantization " + visible(what, 200) + " is not supported; " + kSupported, ErrorKind::unsupported);
}

// One args object of compressed-tensors: how weights, inputs or a cache are rounded.
struct RoundingArgs {
  std::int64_t num_bits = 8;
  std::string type = "float";
  std::string strategy = "tensor";
  bool symmetric = true;
  bool dynamic = false;
  std::int64_t block_rows = 0;
  std::int64_t block_cols = 0;
  std::int64_t group_size = 0;
  bool reordered = false;  // groups are not of neighbours

  bool is_int4() const {
    return num_bits == 4 && type == "int" && strategy == "group" && group_size == 32 && symmetric && !dynamic &&
           !reordered;
  }
  bool is_fp8() const { return num_bits == 8 && type == "float" && symmetric; }
  std::string describe() const {
    const std::string size = group_size > 0 ? " of " + std::to_string(group_size) : "";
    return (symmetric ? "" : "asymmetric ") + type + std::to_string(num_bits) + " per " + strategy + size +
           (reordered ? ", reordered" : "");
  }
};

Status read_block(const Json& value, RoundingArgs& args) {
  std::array<std::int64_t, 2> sizes{};
  if (value.is_string()) {  // "128x128"
    const auto pieces = split(value.get_ref<const std::string&>(), "x");
    if (pieces.size() != 2) return Error("the block " + shown(value) + " must look like 128x128");
    OCTAVO_TRY(sizes[0], parse_int(pieces[0]));
    OCTAVO_TRY(sizes[1], parse_int(pieces[1]));
  } else if (value.is_array() && value.size() == 2 && value[0].is_number_integer() && value[1].is_number_integer()) {
    sizes = {value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  } else {
    return Error("the block size must be a list of two whole numbers, but is " + shown(value));
  }
  constexpr std::int64_t kMaxBlock = 1 << 20;
  for (const std::int64_t n : sizes)
    if (n < 1 || n > kMaxBlock) return Error("a block size of " + std::to_string(n) + " is not possible");
  args.block_rows = sizes[0];
  args.block_cols = sizes[1];
  return {};
}

Result<RoundingArgs> read_args(const Json& value) {
  if (!value.is_object()) return Error("must be an object or null, but is " + shown(value));
  RoundingArgs args;
  OCTAVO_TRY(const auto bits, find_int(value, "num_bits"));
  OCTAVO_TRY(const auto type, find_string(value, "type"));
  OCTAVO_TRY(const auto strategy, find_string(value, "strategy"));
  OCTAVO_TRY(const auto symmetric, find_bool(value, "symmetric"));
  OCTAVO_TRY(const auto group_size, find_int(value, "group_size"));
  const Json* order = find_member(value, "actorder");
  args.group_size = group_size.value_or(0);
  args.reordered = order != nullptr && *order != "static" && *order != "weight";
  args.num_bits = bits.value_or(8);
  args.type = type.value_or("int");  // compressed-tensors' default
  args.symmetric = symmetric.value_or(true);
  if (const Json* dynamic = find_member(value, "dynamic")) {
    if (!dynamic->is_boolean() && !dynamic->is_string()) return Error("\"dynamic\" must be true, false or \"local\"");
    args.dynamic = !dynamic->is_boolean() || dynamic->get<bool>();
  }
  const Json* block = find_member(value, "block_structure");
  if (block != nullptr) {
    OCTAVO_TRY(read_block(*block, args));
  }
  args.strategy = strategy.value_or(block != nullptr ? "block" : group_size ? "group" : "tensor");
  return args;
}

Result<std::optional<RoundingArgs>> find_args(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<RoundingArgs>();
  OCTAVO_TRY(RoundingArgs args, read_args(*value).in(key));
  return std::optional(std::move(args));
}

Status check_strings(const Json& object, const char* key) {
  const Json* list = find_member(object, key);
  if (list == nullptr) return {};
  if (!list->is_array()) return Error("\"" + std::string(key) + "\" must be a list of strings");
  for (const Json& item : *list)
    if (!item.is_string())
      return Error("\"" + std::string(key) + "\" must be a list of strings, but holds " + shown(item));
  return {};
}

Status read_kv_scheme(const Json& config, Quantization& quantization) {
  OCTAVO_TRY(const auto args, find_args(config, "kv_cache_scheme"));
  if (!args) return {};
  if (!args->is_fp8() || args->dynamic || (args->strategy != "tensor" && args->strategy != "attn_head"))
    return Error("kv_cache_scheme " + visible(args->describe()) + (args->dynamic ? " (dynamic)" : "") +
                     " is not supported; float8 per tensor or per attn_head, symmetric and static, are",
                 ErrorKind::unsupported);
  quantization.kv_scheme = true;
  quantization.description += ", KV cache per " + args->strategy;
  return {};
}

// A value that is there and not {} or "dense" changes what the weights mean.
Status refuse_if_used(const Json& config, const char* key) {
  const Json* value = find_member(config, key);
  if (value == nullptr || (value->is_object() && value->empty())) return {};
  const Json* format = find_member(*value, "format");
  if (format != nullptr && *format == "dense") return {};
  return refused("with a " + std::string(key) + (format != nullptr ? " of format " + to_text(*format) : ""));
}

Status add_scheme(Quantization& quantization, const RoundingArgs& weights) {
  WeightScheme scheme = WeightScheme::fp8_tensor;
  if (weights.strategy == "channel") scheme = WeightScheme::fp8_channel;
  if (weights.strategy == "block") {
    scheme = WeightScheme::fp8_block;
    if (weights.block_rows == 0) return Error("strategy \"block\" needs a block_structure such as [128, 128]");
    const bool other = quantization.block_rows != 0 &&
                       (quantization.block_rows != weights.block_rows || quantization.block_cols != weights.block_cols);
    if (other) return refused("with blocks of two different sizes");
    quantization.block_rows = static_cast<int>(weights.block_rows);
    quantization.block_cols = static_cast<int>(weights.block_cols);
  }
  const bool first = quantization.scheme == WeightScheme::none;
  quantization.scheme = first || quantization.scheme == scheme ? scheme : WeightScheme::mixed;
  return {};
}

Status read_group(const Json& group, const std::string& default_format, Quantization& quantization) {
  if (!group.is_object()) return Error("must be an object");
  OCTAVO_TRY(check_strings(group, "targets"));
  if (const Json* targets = find_member(group, "targets"); targets == nullptr || targets->empty())
    return Error("\"targets\" must name at least one kind of module");
  OCTAVO_TRY(const auto format, find_string(group, "format"));
  OCTAVO_TRY(const auto weights, find_args(group, "weights"));
  OCTAVO_TRY(const auto inputs, find_args(group, "input_activations"));
  OCTAVO_TRY(const auto outputs, find_args(group, "output_activations"));
  if (weights) {
    const std::string name = format.value_or(default_format);
    if (name == "pack-quantized" && weights->is_int4()) {
      const bool alone = quantization.scheme == WeightScheme::none || quantization.scheme == WeightScheme::int4;
      quantization.scheme = alone ? WeightScheme::int4 : WeightScheme::mixed;
      quantization.description += ", weights int4 per group of 32";
      return inputs || outputs ? refused("compressed-tensors " + name + " with rounded inputs or outputs") : Status();
    }
    if (name != "float-quantized" && name != "naive-quantized")
      return refused("compressed-tensors " + name + " (weights " + weights->describe() + ")");
    const bool known = weights->strategy == "tensor" || weights->strategy == "channel" || weights->strategy == "block";
    if (!weights->is_fp8() || weights->dynamic || !known)
      return refused("compressed-tensors " + name + " with weights " + weights->describe());
    OCTAVO_TRY(add_scheme(quantization, *weights));
    quantization.description += ", weights per " + weights->strategy;
    if (inputs) quantization.description += ", inputs per " + inputs->strategy + (inputs->dynamic ? "" : " (static)");
  }
  if (inputs && !inputs->is_fp8()) return refused("compressed-tensors with inputs " + inputs->describe());
  if (outputs && !outputs->is_fp8()) return refused("compressed-tensors with outputs " + outputs->describe());
  return {};
}

Result<Quantization> read_compressed_tensors(const Json& config) {
  OCTAVO_TRY(const auto format, find_string(config, "format"));
  Quantization quantization;
  quantization.description = "compressed-tensors " + format.value_or("float-quantized");
  OCTAVO_TRY(refuse_if_used(config, "sparsity_config"));
  OCTAVO_TRY(refuse_if_used(config, "transform_config"));
  OCTAVO_TRY(check_strings(config, "ignore"));
  if (const Json* groups = find_member(config, "config_groups")) {
    if (!groups->is_object()) return Error("\"config_groups\" must be an object");
    for (const auto& [name, group] : groups->items()) {
      OCTAVO_TRY(
          read_group(group, format.value_or("float-quantized"), quantization).in("config_groups." + visible(name)));
    }
  }
  OCTAVO_TRY(read_kv_scheme(config, quantization));
  return quantization;
}

// quant_method fp8: blocks with weight_block_size, or one scale per tensor without it.
Result<Quantization> read_fp8(const Json& config) {
  Quantization quantization;
  OCTAVO_TRY(const auto fmt, find_string(config, "fmt"));
  if (fmt && *fmt != "e4m3") return refused("fp8 with fmt " + *fmt);
  OCTAVO_TRY(const auto activations, find_string(config, "activation_scheme"));
  OCTAVO_TRY(check_strings(config, "modules_to_not_convert"));
  OCTAVO_TRY(check_strings(config, "ignored_layers"));
  RoundingArgs weights;
  quantization.description = "fp8, weights per tensor";
  if (const Json* block = find_member(config, "weight_block_size")) {
    OCTAVO_TRY(read_block(*block, weights).in("weight_block_size"));
    weights.strategy = "block";
    quantization.description =
        "fp8, weights per block of " + std::to_string(weights.block_rows) + " x " + std::to_string(weights.block_cols);
  }
  OCTAVO_TRY(add_scheme(quantization, weights));
  quantization.description += ", inputs " + activations.value_or("dynamic");
  OCTAVO_TRY(read_kv_scheme(config, quantization));
  return quantization;
}

Result<Quantization> read_modelopt(const Json& config) {
  OCTAVO_TRY(const auto algorithm, find_string(config, "quant_algo"));
  if (algorithm.value_or("without a quant_algo") != "FP8")
    return refused("modelopt " + algorithm.value_or("without a quant_algo"));
  Quantization quantization;
  quantization.scheme = WeightScheme::fp8_tensor;
  quantization.description = "modelopt FP8, weights per tensor";
  OCTAVO_TRY(read_kv_scheme(config, quantization));
  return quantization;
}

// The experts' matrices alone: what modules_to_not_convert names is everything else.
Result<Quantization> read_mxfp4(const Json& config) {
  OCTAVO_TRY(check_strings(config, "modules_to_not_convert"));
  Quantization quantization;
  quantization.scheme = WeightScheme::mxfp4;
  quantization.description = "mxfp4 (experts: 4 bits, a scale for each 32), the rest 16 bit";
  return quantization;
}

Result<Quantization> interpret(const Json& config) {
  if (!config.is_object()) return Error("must be an object or null, but is " + shown(config));
  if (config.empty()) return Quantization();
  OCTAVO_TRY(const auto method, find_string(config, "quant_method"));
  const bool looks_compressed = find_member(config, "config_groups") != nullptr;
  if (!method && !looks_compressed) return Error("\"quant_method\" is missing");
  const std::string name = lower(method.value_or("compressed-tensors"));
  if (name == "compressed-tensors") return read_compressed_tensors(config);
  if (name == "fp8") return read_fp8(config);
  if (name == "modelopt") return read_modelopt(config);
  if (name == "mxfp4") return read_mxfp4(config);
  return refused(name);
}

}  // namespace

Result<Quantization> read_quantization(const Json& config) {
  const Json* text = find_member(config, "text_config");
  for (const char* key : {"quantization_config", "compression_config"}) {
    const Json* found = find_member(config, key);
    if (found == nullptr && text != nullptr) found = find_member(*text, key);
    if (found != nullptr) return interpret(*found).in(std::string(key));
  }
  return Quantization();
}

}  // namespace octavo
