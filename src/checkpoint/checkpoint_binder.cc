#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/binder_state.h"
#include "checkpoint/weight_scale.h"

namespace octavo {
namespace {

// Numbers that change what a weight or a cache means: none may go unread, whatever it is called.
bool is_scale_name(std::string_view name) {
  for (const std::string_view ending : {"_scale", "_scales", "_scale_inv", "_scale_2", "_scale_ub"})
    if (name.ends_with(ending)) return true;
  return false;
}

}  // namespace

Error tensor_error(const StoredTensor& tensor, const std::string& what, ErrorKind kind) {
  return Error(tensor.file + ": tensor " + in_quotes(tensor.name) + " " + what, kind);
}

Status check_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& expected) {
  if (tensor.shape == expected) return {};
  return tensor_error(tensor, "has shape " + shape_text(tensor.shape) + ", expected " + shape_text(expected) +
                                  "; the weights and the model's configuration do not belong together");
}

// A tensor of a matrix for each head, [heads, rows, in], is their rows one after the other.
StoredTensor as_matrix(const StoredTensor& tensor, std::int64_t out, std::int64_t in) {
  StoredTensor matrix = tensor;
  if (tensor.shape.size() == 3 && tensor.shape[2] == in && tensor.shape[0] * tensor.shape[1] == out)
    matrix.shape = {out, in};
  return matrix;
}

Status check_weight_dtype(const StoredTensor& tensor) {
  constexpr std::array kPlain = {DType::f32, DType::f16, DType::bf16, DType::e4m3};
  if (is_packed(tensor.dtype) || std::find(kPlain.begin(), kPlain.end(), tensor.dtype) != kPlain.end()) return {};
  return tensor_error(tensor,
                      "is " + std::string(dtype_info(tensor.dtype).name) +
                          ", but a weight must be f32, f16, bf16, e4m3 with a scale, or one of GGUF's q4_0, q4_1, "
                          "q5_0, q5_1, q8_0, q4_k, q5_k and q6_k",
                      ErrorKind::unsupported);
}

Result<const StoredTensor*> CheckpointBinder::State::require(const std::string& name) {
  if (const StoredTensor* tensor = use(name)) return tensor;
  const std::string in_file = file_name(name);
  if (in_file.empty())
    return Error(checkpoint.path() + ": this kind of file has no place for tensor " + in_quotes(name));
  std::string message = checkpoint.path() + ": tensor " + in_quotes(in_file) + " is missing";
  const std::string module = in_file.substr(0, in_file.rfind('.'));
  for (const auto& [suffix, scheme] :
       {std::pair(".weight_packed", "pack-quantized integers or nvfp4"), std::pair(".qweight", "AWQ or GPTQ"),
        std::pair(".weight_quantized", "integers")})
    if (checkpoint.find(module + suffix) != nullptr)
      return Error(message + ", but " + in_quotes(module + suffix) +
                       " is there: a quantization that is not supported (" + scheme + ")",
                   ErrorKind::unsupported);
  return Error(message + "; the checkpoint is not complete, or is of another family", ErrorKind::not_found);
}

Result<std::int64_t> CheckpointBinder::State::paired_rows(const std::string& name, std::int64_t rows) const {
  const std::int64_t paired = names.paired_rows ? names.paired_rows(name) : 0;
  if (paired < 0 || paired % 2 != 0 || (paired > 0 && rows % paired != 0))
    return Error(checkpoint.path() + ": " + in_quotes(name) + ": " + std::to_string(rows) +
                 " rows are not whole heads of " + std::to_string(paired) + " paired rows");
  return paired;
}

Result<Tensor> CheckpointBinder::State::values(const StoredTensor& tensor, Range rows, Range cols,
                                               std::int64_t paired) {
  const std::int64_t file_row_bytes = dtype_bytes(tensor.dtype, tensor.shape[1]);
  const std::int64_t row_bytes = dtype_bytes(tensor.dtype, cols.count);
  const std::byte* data = nullptr;
  if (paired == 0 && row_bytes == file_row_bytes) {
    const auto share = tensor.bytes.subspan(static_cast<std::size_t>(rows.begin * row_bytes),
                                            static_cast<std::size_t>(rows.count * row_bytes));
    OCTAVO_TRY(data, memory.place(share, tensor.owner, tensor.dtype));
    if (data == share.data()) mapped.insert(data);
  } else {
    const std::byte* column = tensor.bytes.data() + dtype_bytes(tensor.dtype, cols.begin);
    const auto copy = [&](std::int64_t first, std::int64_t count, std::byte* to) {
      for (std::int64_t r = 0; r < count; ++r)
        std::memcpy(to + r * row_bytes, column + file_row(rows.begin + first + r, paired) * file_row_bytes,
                    static_cast<std::size_t>(row_bytes));
    };
    OCTAVO_TRY(data, memory.make(rows.count, row_bytes, copy));
  }
  return Tensor(data, tensor.dtype, {rows.count, cols.count});
}

Status CheckpointBinder::State::add_scales(WeightPart& part, const PartRequest& request, std::int64_t in, Range rows,
                                           Range cols, std::int64_t paired) {
  const StoredTensor* tensor = use(request.name + ".weight_scale");
  if (tensor == nullptr) tensor = use(request.name + ".weight_scale_inv");
  if (tensor == nullptr)
    return Error(checkpoint.path() + ": tensor " + in_quotes(file_name(request.name + ".weight")) +
                     " is e4m3, but has no weight_scale or weight_scale_inv beside it",
                 ErrorKind::not_found);
  const std::int64_t out = request.rows_of_tensor();
  OCTAVO_TRY(const WeightScale whole, read_weight_scale(*tensor, out, in, quantization));
  OCTAVO_TRY(const WeightScale share,
             cut_scale(whole, out, in, rows, cols, paired).in(tensor->file + ": " + tensor->name));
  OCTAVO_TRY(const std::byte* data, memory.floats(share.numbers));
  part.grain = share.grain;
  part.block_rows = share.block_rows;
  part.block_cols = share.block_cols;
  part.scale = share.grain == ScaleGrain::block ? Tensor(data, DType::f32, {share.rows, share.cols})
                                                : Tensor(data, DType::f32, {share.rows});
  const StoredTensor* input = use(request.name + ".input_scale");
  if (input == nullptr) input = use(request.name + ".activation_scale");
  if (input == nullptr) return {};
  OCTAVO_TRY(const float number, read_single_scale(*input));
  const auto [place, is_new] = input_scales.try_emplace(number, nullptr);
  if (is_new) {
    OCTAVO_TRY(place->second, memory.floats(std::span(&number, 1)));
  }
  part.input_scale = Tensor(place->second, DType::f32, {1});
  return {};
}

Result<WeightPart> CheckpointBinder::State::part(const PartRequest& request, std::int64_t in) {
  const std::string name = request.name + ".weight";
  const bool may_be_packed = quantization.scheme == WeightScheme::int4 || quantization.scheme == WeightScheme::mixed;
  if (may_be_packed && find(name) == nullptr && find(name + "_packed") != nullptr) return int4_part(request, in);
  OCTAVO_TRY(const StoredTensor* stored, require(name));
  const StoredTensor tensor = as_matrix(*stored, request.rows_of_tensor(), in);
  OCTAVO_TRY(check_shape(tensor, {request.rows_of_tensor(), in}));
  OCTAVO_TRY(check_weight_dtype(tensor));
  const std::string where = tensor.file + ": tensor " + in_quotes(tensor.name);
  OCTAVO_TRY(const Share share, share_of(request, in, rank).in(where));
  const auto [rows, cols] = share;
  OCTAVO_TRY(check_grain(cols, in, dtype_info(tensor.dtype).block_elems).in(where));
  OCTAVO_TRY(const std::int64_t paired, paired_rows(name, request.rows_of_tensor()));
  WeightPart part;
  OCTAVO_TRY(part.values, values(tensor, rows, cols, paired));
  if (tensor.dtype == DType::e4m3) {
    OCTAVO_TRY(add_scales(part, request, in, rows, cols, paired));
  }
  return part;
}

Result<std::vector<float>> CheckpointBinder::State::finite_floats(const StoredTensor& tensor) const {
  OCTAVO_TRY(std::vector<float> numbers, read_floats(tensor));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(numbers[i]))
      return tensor_error(tensor, "holds " + std::to_string(numbers[i]) + " at position " + std::to_string(i) +
                                      "; the file is damaged");
  return numbers;
}

Status CheckpointBinder::State::append_vector(std::vector<float>& stacked, const PartRequest& request) {
  check(request.cut != Cut::columns, "a vector has no columns");
  OCTAVO_TRY(const StoredTensor* tensor, require(request.name));
  OCTAVO_TRY(check_shape(*tensor, {request.rows_of_tensor()}));
  OCTAVO_TRY(const std::vector<float> whole, finite_floats(*tensor));
  OCTAVO_TRY(const Share share, share_of(request, 1, rank).in(tensor->file + ": tensor " + in_quotes(tensor->name)));
  OCTAVO_TRY(const std::int64_t paired, paired_rows(request.name, request.rows_of_tensor()));
  for (std::int64_t r = share.rows.begin; r < share.rows.end(); ++r)
    stacked.push_back(whole[static_cast<std::size_t>(file_row(r, paired))]);
  return {};
}

CheckpointBinder::CheckpointBinder(const Checkpoint& checkpoint, const Quantization& quantization, NameMap names,
                                   Device& device, RankOf rank, Prepare prepare)
    : state_(new State{checkpoint,
                       quantization,
                       std::move(names),
                       rank,
                       WeightMemory(device),
                       std::move(prepare),
                       {},
                       std::vector<bool>(checkpoint.tensors().size()),
                       {},
                       {}}) {}

CheckpointBinder::~CheckpointBinder() = default;

Status CheckpointBinder::weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) {
  OCTAVO_TRY(state_->stack(target, parts, in));
  return parts.front().looked_up ? Status() : multiply_too(target);
}

Status CheckpointBinder::multiply_too(Weight& weight) {
  if (!state_->prepare) return {};
  OCTAVO_TRY(state_->prepare(weight));
  if (weight.form == nullptr) return {};
  // The wing reads its own form from now on.
  for (const WeightPart& part : weight.parts)
    if (state_->mapped.contains(part.values.raw()))
      release_mapped({part.values.raw(), static_cast<std::size_t>(part.values.bytes())});
  return {};
}

Status CheckpointBinder::State::stack(Weight& target, std::span<const PartRequest> parts, std::int64_t in) {
  check(!parts.empty() && in > 0, "a weight has at least one part and one column");
  Weight weight;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(WeightPart part, this->part(request, in));
    check(weight.parts.empty() || part.values.size(1) == weight.in, "all parts of a weight share their columns");
    weight.in = part.values.size(1);
    weight.out += part.values.size(0);
    weight.parts.push_back(std::move(part));
  }
  target = std::move(weight);
  return {};
}

Status CheckpointBinder::vectors(Tensor& target, std::span<const PartRequest> parts) {
  std::vector<float> stacked;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(state_->append_vector(stacked, request));
  }
  return constant(target, stacked);
}

Status CheckpointBinder::depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) {
  std::vector<float> stacked;
  for (const PartRequest& request : parts) {
    OCTAVO_TRY(const StoredTensor* tensor, state_->require(request.name));
    OCTAVO_TRY(check_shape(*tensor, {request.rows_of_tensor(), 1, taps}));
    OCTAVO_TRY(const std::vector<float> whole, state_->finite_floats(*tensor));
    OCTAVO_TRY(const Share share,
               share_of(request, taps, state_->rank).in(tensor->file + ": tensor " + in_quotes(tensor->name)));
    stacked.insert(stacked.end(), whole.begin() + share.rows.begin * taps, whole.begin() + share.rows.end() * taps);
  }
  OCTAVO_TRY(constant(target, stacked));
  target = target.reshaped({std::ssize(stacked) / taps, taps});
  return {};
}

Status CheckpointBinder::constant(Tensor& target, std::span<const float> values) {
  OCTAVO_TRY(const std::byte* data, state_->memory.floats(values));
  target = Tensor(data, DType::f32, {static_cast<std::int64_t>(values.size())});
  return {};
}

bool CheckpointBinder::has(const std::string& name) const { return state_->find(name) != nullptr; }

Result<StoredScales> CheckpointBinder::kv_scales(const std::string& prefix, int q_heads, int kv_heads) {
  constexpr std::string_view kSuffix = ".k_scale";
  const std::string in_file = state_->file_name(prefix + std::string(kSuffix));
  if (!in_file.ends_with(kSuffix)) return StoredScales();  // a container without KV scales
  const std::string file_prefix = in_file.substr(0, in_file.size() - kSuffix.size());
  state_->attention_prefixes.push_back(file_prefix);
  OCTAVO_TRY(StoredScales scales, read_kv_scales(state_->checkpoint, file_prefix, q_heads, kv_heads));
  const auto cut = [&](std::vector<float>& heads) -> Status {
    if (heads.empty()) return {};
    const auto n = static_cast<std::int64_t>(heads.size());
    OCTAVO_TRY(const Range share, cut_range(n, 1, state_->rank, true).in("KV scales of " + in_quotes(file_prefix)));
    heads = std::vector<float>(heads.begin() + share.begin, heads.begin() + share.end());
    return {};
  };
  OCTAVO_TRY(cut(scales.key));
  OCTAVO_TRY(cut(scales.value));
  OCTAVO_TRY(cut(scales.query));
  return scales;
}

// "model.layers.31.mlp.up_proj.weight", "blk.31.ffn_up.weight": a tensor of a numbered layer.
bool is_layer_tensor(std::string_view name) {
  for (const std::string_view part : {"layers.", "blk."}) {
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) continue;
    const std::size_t digit = at + part.size();
    if (digit < name.size() && name[digit] >= '0' && name[digit] <= '9') return true;
  }
  return false;
}

Status CheckpointBinder::finish() const {
  std::vector<std::string> prefixes = state_->attention_prefixes;
  std::sort(prefixes.begin(), prefixes.end());
  std::vector<std::string> unread;
  for (std::size_t i = 0; i < state_->used.size(); ++i) {
    const StoredTensor& tensor = state_->checkpoint.tensors()[i];
    if (state_->used[i] || (state_->names.ignorable && state_->names.ignorable(tensor.name))) continue;
    std::string prefix;
    if (is_kv_scale_name(tensor.name, &prefix)) {
      if (std::binary_search(prefixes.begin(), prefixes.end(), prefix)) continue;
      return tensor_error(tensor, "is a scale tensor that belongs to no layer of this model");
    }
    if (is_scale_name(tensor.name))
      return tensor_error(
          tensor,
          "is a scale tensor that nothing uses: it is not of a kind that octavo knows, or the matrix it belongs to "
          "is missing or not e4m3");
    if (tensor.name.ends_with("_zero_point")) {
      const auto nonzero = [](std::byte byte) { return byte != std::byte{0}; };
      if (!std::any_of(tensor.bytes.begin(), tensor.bytes.end(), nonzero)) continue;
      return tensor_error(tensor, "is a zero point that is not zero: asymmetric quantization is not supported",
                          ErrorKind::unsupported);
    }
    if (is_layer_tensor(tensor.name))
      return tensor_error(tensor,
                          "is of a layer, but this model has no use for it: the config and the weights disagree");
    unread.push_back(tensor.name);
  }
  if (unread.empty()) return {};
  const std::size_t shown = std::min<std::size_t>(unread.size(), 3);
  log::warn("tensors of the checkpoint are not used",
            {{"count", unread.size()}, {"first", join(std::span(unread).first(shown), ", ")}});
  return {};
}

std::vector<Buffer> CheckpointBinder::take_buffers() { return state_->memory.take_buffers(); }

}  // namespace octavo
