// CheckpointBinder::experts: the matrices of a layer's experts, from a tensor each, a tensor of all of them, or MXFP4.

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "checkpoint/binder_state.h"

namespace octavo {
namespace {

constexpr std::int64_t kPackedNumbers = 32;  // of MXFP4: numbers that share a scale
constexpr std::int64_t kPackedBytes = 16;

// Of GGUF's MXFP4: none may be 255, which is no number.
Status check_exponents(const StoredTensor& tensor) {
  for (std::size_t at = 0; at < tensor.bytes.size(); at += 1 + kPackedBytes)
    if (tensor.bytes[at] == std::byte{255})
      return tensor_error(tensor, "holds a scale of 255, which is no number; the file is damaged");
  return {};
}

Result<Range> share_of_rows(const PartRequest& part, RankOf rank) {
  if (part.cut != Cut::rows) return Range{0, part.out};
  return cut_range(part.out, part.unit, rank, false);
}

Result<Range> share_of_columns(const PartRequest& part, std::int64_t in, RankOf rank, std::int64_t grain) {
  Range cols{0, in};
  if (part.cut == Cut::columns) {
    OCTAVO_TRY(cols, cut_range(in, part.unit, rank, false));
    OCTAVO_TRY(check_grain(cols, in, grain));
  }
  return cols;
}

// Blocks of GGUF's MXFP4 (a scale, then nibbles of the first and the second half) -> pairs of neighbours.
void pair_neighbours(const std::byte* blocks, std::int64_t count, std::byte* to) {
  const auto nibble = [](const std::byte* block, int i) {
    return i < 16 ? block[1 + i] & std::byte{15} : block[1 + i - 16] >> 4;
  };
  for (std::int64_t b = 0; b < count; ++b)
    for (int i = 0; i < kPackedBytes; ++i) {
      const std::byte* block = blocks + b * (1 + kPackedBytes);
      to[b * kPackedBytes + i] = nibble(block, 2 * i) | nibble(block, 2 * i + 1) << 4;
    }
}

// rows x cols numbers of `from`, whose rows lie `stride` numbers apart, written column by column.
template <class T>
void turn(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t cols, std::byte* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      std::memcpy(to + (c * rows + r) * static_cast<std::int64_t>(sizeof(T)),
                  from + (r * stride + c) * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
}

WeightPart packed_part(const Tensor& numbers, const Tensor& exponents) {
  WeightPart part;
  part.values = numbers;
  part.scale = exponents;
  part.grain = ScaleGrain::block;
  part.block_rows = 1;
  part.block_cols = kPackedNumbers;
  return part;
}

// The matrix of one expert as a tensor of its own.
StoredTensor one_expert(const StoredTensor& tensor, std::int64_t expert, DType dtype, std::int64_t rows,
                        std::int64_t cols) {
  StoredTensor one = tensor;
  const auto bytes = static_cast<std::size_t>(dtype_bytes(dtype, rows * cols));
  one.dtype = dtype;
  one.shape = {rows, cols};
  one.bytes = tensor.bytes.subspan(static_cast<std::size_t>(expert) * bytes, bytes);
  return one;
}

}  // namespace

Status CheckpointBinder::State::separate_experts(std::vector<Weight>& target, const ExpertsRequest& request) {
  for (std::size_t expert = 0; expert < target.size(); ++expert) {
    std::vector<PartRequest> parts = request.parts;
    for (PartRequest& part : parts) part.name = request.prefix + "." + std::to_string(expert) + "." + part.name;
    OCTAVO_TRY(stack(target[expert], parts, request.in));
  }
  return {};
}

Result<Tensor> CheckpointBinder::State::turned_values(const StoredTensor& tensor, const ExpertShare& share) {
  const std::int64_t size = dtype_info(tensor.dtype).block_bytes;
  const std::byte* matrix = tensor.bytes.data() + share.expert * share.in * share.out * size;
  const auto write = [&](std::int64_t first, std::int64_t count, std::byte* to) {
    const std::byte* from = matrix + (share.cols.begin * share.out + share.rows.begin + first) * size;
    if (size == 4) return turn<std::uint32_t>(from, share.out, share.cols.count, count, to);
    turn<std::uint16_t>(from, share.out, share.cols.count, count, to);
  };
  OCTAVO_TRY(const std::byte* data, memory.make(share.rows.count, share.cols.count * size, write));
  return Tensor(data, tensor.dtype, {share.rows.count, share.cols.count});
}

Result<WeightPart> CheckpointBinder::State::expert_part(const StoredTensor& tensor, const ExpertShare& share) {
  WeightPart part;
  if (share.transposed) {
    OCTAVO_TRY(part.values, turned_values(tensor, share));
    return part;
  }
  const StoredTensor one = one_expert(tensor, share.expert, tensor.dtype, share.out, share.in);
  if (one.dtype == DType::mxfp4) return unpaired_expert_part(one, share);
  OCTAVO_TRY(part.values, values(one, share.rows, share.cols, 0));
  return part;
}

Result<WeightPart> CheckpointBinder::State::unpaired_expert_part(const StoredTensor& one, const ExpertShare& share) {
  const std::int64_t groups = share.cols.count / kPackedNumbers;
  const auto row = [&](std::int64_t r) {
    return one.bytes.data() + dtype_bytes(one.dtype, (share.rows.begin + r) * share.in + share.cols.begin);
  };
  const auto write_codes = [&](std::int64_t first, std::int64_t count, std::byte* to) {
    for (std::int64_t r = 0; r < count; ++r) pair_neighbours(row(first + r), groups, to + r * groups * kPackedBytes);
  };
  const auto write_exponents = [&](std::int64_t first, std::int64_t count, std::byte* to) {
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t g = 0; g < groups; ++g) to[r * groups + g] = row(first + r)[g * (1 + kPackedBytes)];
  };
  OCTAVO_TRY(const std::byte* codes, memory.make(share.rows.count, groups * kPackedBytes, write_codes));
  OCTAVO_TRY(const std::byte* exponents, memory.make(share.rows.count, groups, write_exponents));
  return packed_part(Tensor(codes, DType::e2m1, {share.rows.count, share.cols.count}),
                     Tensor(exponents, DType::e8m0, {share.rows.count, groups}));
}

Result<WeightPart> CheckpointBinder::State::packed_expert_part(const StoredTensor& blocks, const StoredTensor& scales,
                                                               const ExpertShare& share) {
  const Range scale_cols{share.cols.begin / kPackedNumbers, share.cols.count / kPackedNumbers};
  const StoredTensor codes = one_expert(blocks, share.expert, DType::e2m1, share.out, share.in);
  const StoredTensor exponents = one_expert(scales, share.expert, DType::e8m0, share.out, share.in / kPackedNumbers);
  OCTAVO_TRY(const Tensor numbers, values(codes, share.rows, share.cols, 0));
  OCTAVO_TRY(const Tensor scale, values(exponents, share.rows, scale_cols, 0));
  return packed_part(numbers, scale);
}

// One part of every expert, from a tensor of all experts in which its rows begin at `first` of `out`.
Status CheckpointBinder::State::stacked_experts(std::vector<Weight>& target, const ExpertsRequest& request,
                                                const PartRequest& part, const std::string& name, std::int64_t first,
                                                std::int64_t out) {
  const StoredTensor* scales = nullptr;
  const bool packed = find(name) == nullptr && find(name + "_blocks") != nullptr;
  OCTAVO_TRY(const StoredTensor* tensor, require(packed ? name + "_blocks" : name));
  if (packed) {
    OCTAVO_TRY(scales, require(name + "_scales"));
    if (request.in % kPackedNumbers != 0)
      return tensor_error(*tensor, "cannot hold rows of " + std::to_string(request.in) + " numbers: a block has 32");
    OCTAVO_TRY(check_shape(*tensor, {request.count, out, request.in / kPackedNumbers, kPackedBytes}));
    OCTAVO_TRY(check_shape(*scales, {request.count, out, request.in / kPackedNumbers}));
    for (const StoredTensor* bytes : {tensor, scales})
      if (bytes->dtype != DType::u8) return tensor_error(*bytes, "must be u8, as MXFP4 is packed");
    if (std::memchr(scales->bytes.data(), 255, scales->bytes.size()) != nullptr)
      return tensor_error(*scales, "holds 255, which is no number; the file is damaged");
  } else {
    if (tensor->dtype != DType::mxfp4) OCTAVO_TRY(check_weight_dtype(*tensor));
    if (tensor->dtype == DType::e4m3 || (request.transposed && is_block_type(tensor->dtype)))
      return tensor_error(*tensor,
                          "holds all experts in " + std::string(dtype_info(tensor->dtype).name) +
                              ", which is not supported; a tensor for each expert is",
                          ErrorKind::unsupported);
    OCTAVO_TRY(check_shape(*tensor, request.transposed ? std::vector<std::int64_t>{request.count, request.in, out}
                                                       : std::vector<std::int64_t>{request.count, out, request.in}));
  }
  const std::string where = tensor->file + ": tensor " + in_quotes(tensor->name);
  if (tensor->dtype == DType::mxfp4) OCTAVO_TRY(check_exponents(*tensor));
  const std::int64_t grain = packed ? kPackedNumbers : dtype_info(tensor->dtype).block_elems;
  ExpertShare share{.out = out, .in = request.in, .transposed = request.transposed && !packed};
  OCTAVO_TRY(share.rows, share_of_rows(part, rank).in(where));
  OCTAVO_TRY(share.cols, share_of_columns(part, request.in, rank, grain).in(where));
  share.rows.begin += first;
  for (Weight& expert : target) {
    WeightPart made;
    OCTAVO_TRY(made, packed ? packed_expert_part(*tensor, *scales, share) : expert_part(*tensor, share));
    expert.in = share.cols.count;
    expert.out += share.rows.count;
    expert.parts.push_back(std::move(made));
    ++share.expert;
  }
  return {};
}

Status CheckpointBinder::experts(std::vector<Weight>& target, const ExpertsRequest& request) {
  check(request.count > 0 && !request.parts.empty() && request.in > 0, "experts have parts and columns");
  std::vector<Weight> experts(static_cast<std::size_t>(request.count));
  const std::string all = request.prefix + "." + request.stacked;
  if (has(all) || has(all + "_blocks")) {
    std::int64_t first = 0;
    for (const PartRequest& part : request.parts) {
      OCTAVO_TRY(state_->stacked_experts(experts, request, part, all, first, request.out()));
      first += part.out;
    }
  } else if (const std::string& part = request.parts.front().name;
             has(request.prefix + "." + part) || state_->file_name(request.prefix + ".0." + part + ".weight").empty()) {
    for (const PartRequest& each : request.parts)
      OCTAVO_TRY(state_->stacked_experts(experts, request, each, request.prefix + "." + each.name, 0, each.out));
  } else {
    OCTAVO_TRY(state_->separate_experts(experts, request));
  }
  target = std::move(experts);
  return {};
}

Result<std::vector<float>> CheckpointBinder::State::expert_bias(const std::string& name, int count, std::int64_t out) {
  OCTAVO_TRY(const StoredTensor* tensor, require(name));
  OCTAVO_TRY(check_shape(*tensor, {count, out}));
  return finite_floats(*tensor);
}

Status CheckpointBinder::expert_biases(Tensor& target, const ExpertsRequest& request) {
  struct Piece {
    std::vector<float> numbers;  // [count, width]
    std::int64_t width = 0;
    Range rows;  // this rank's of them
  };
  const std::string all = request.prefix + "." + request.stacked + "_bias";
  const bool stacked = has(all);
  std::vector<Piece> pieces;
  std::vector<float> whole;
  if (stacked) {
    OCTAVO_TRY(whole, state_->expert_bias(all, request.count, request.out()));
  }
  std::int64_t first = 0;
  for (const PartRequest& part : request.parts) {
    const std::string name = request.prefix + "." + part.name + "_bias";
    Piece piece{whole, stacked ? request.out() : part.out, {}};
    OCTAVO_TRY(piece.rows, share_of_rows(part, state_->rank).in(stacked ? all : name));
    if (stacked) {
      piece.rows.begin += first;
    } else {
      OCTAVO_TRY(piece.numbers, state_->expert_bias(name, request.count, part.out));
    }
    first += part.out;
    pieces.push_back(std::move(piece));
  }
  std::vector<float> numbers;
  for (std::int64_t expert = 0; expert < request.count; ++expert)
    for (const Piece& piece : pieces) {
      const auto begin = piece.numbers.begin() + expert * piece.width + piece.rows.begin;
      numbers.insert(numbers.end(), begin, begin + piece.rows.count);
    }
  OCTAVO_TRY(const std::byte* data, state_->memory.floats(numbers));
  target = Tensor(data, DType::f32, {request.count, static_cast<std::int64_t>(numbers.size()) / request.count});
  return {};
}

}  // namespace octavo
