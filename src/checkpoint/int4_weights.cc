// CheckpointBinder::State::int4_part: symmetric 4-bit integers as compressed-tensors packs them (models.md 10.5),
// brought into q4_0 blocks, which hold the same numbers: 32 codes less 8 under one scale.

#include <cstring>

#include "base/json.h"
#include "base/strings.h"
#include "checkpoint/binder_state.h"
#include "checkpoint/weight_scale.h"

namespace octavo {
namespace {

constexpr std::int64_t kGroup = 32;  // numbers that share a scale, along a row
constexpr std::int64_t kWord = 8;    // numbers of a packed word, the first in the lowest bits

// 16 bytes of neighbours -> the bytes of a q4_0 block: its first 16 numbers in the low halves, the others in the high.
void part_halves(const std::byte* pairs, std::byte* to) {
  const auto number = [&](int i) { return (i % 2 == 0 ? pairs[i / 2] : pairs[i / 2] >> 4) & std::byte{15}; };
  for (int i = 0; i < kGroup / 2; ++i) to[i] = number(i) | number(i + kGroup / 2) << 4;
}

// weight_shape says what the packed words cannot: how many numbers of the last one count.
Status check_said_shape(const StoredTensor& tensor, std::int64_t out, std::int64_t in) {
  if (tensor.dtype != DType::i32 && tensor.dtype != DType::i64)
    return tensor_error(tensor, "must be whole numbers, but is " + std::string(dtype_info(tensor.dtype).name));
  OCTAVO_TRY(check_shape(tensor, {2}));
  const std::size_t size = tensor.dtype == DType::i64 ? 8 : 4;
  std::int64_t said[2] = {};
  for (std::size_t i = 0; i < 2; ++i) std::memcpy(&said[i], tensor.bytes.data() + i * size, size);
  if (said[0] == out && said[1] == in) return {};
  return tensor_error(tensor, "says " + std::to_string(said[0]) + " x " + std::to_string(said[1]) + ", expected " +
                                  std::to_string(out) + " x " + std::to_string(in));
}

}  // namespace

Result<std::vector<std::uint16_t>> CheckpointBinder::State::half_scales(const StoredTensor& tensor) const {
  OCTAVO_TRY(const std::vector<float> scales, finite_floats(tensor));
  std::vector<std::uint16_t> halves;
  for (const float scale : scales) {
    halves.push_back(f16_from_f32(scale));
    if (f32_from_f16(halves.back()) != scale)
      return tensor_error(
          tensor, "holds a scale of " + to_text(Json(scale)) + ", which blocks with a scale of 16 bits cannot keep",
          ErrorKind::unsupported);
  }
  return halves;
}

Result<WeightPart> CheckpointBinder::State::int4_part(const PartRequest& request, std::int64_t in) {
  OCTAVO_TRY(const StoredTensor* words, require(request.name + ".weight_packed"));
  OCTAVO_TRY(const StoredTensor* scales, require(request.name + ".weight_scale"));
  OCTAVO_TRY(const StoredTensor* shape, require(request.name + ".weight_shape"));
  if (words->dtype != DType::i32 || in % kGroup != 0)
    return tensor_error(*words, "is not of 4-bit integers, eight a word, in rows of whole groups of 32",
                        ErrorKind::unsupported);
  const std::int64_t out = request.rows_of_tensor();
  OCTAVO_TRY(check_shape(*words, {out, in / kWord}));
  OCTAVO_TRY(check_shape(*scales, {out, in / kGroup}));
  OCTAVO_TRY(check_said_shape(*shape, out, in));
  OCTAVO_TRY(const std::vector<std::uint16_t> halves, half_scales(*scales));
  const std::string where = words->file + ": tensor " + in_quotes(words->name);
  OCTAVO_TRY(const Share share, share_of(request, in, rank).in(where));
  const Range rows = share.rows;
  const Range cols = share.cols;
  OCTAVO_TRY(check_grain(cols, in, kGroup).in(where));
  const std::int64_t block = dtype_info(DType::q4_0).block_bytes;
  const std::int64_t groups = cols.count / kGroup;
  const auto write = [&](std::int64_t first, std::int64_t count, std::byte* to) {
    for (std::int64_t r = rows.begin + first; r < rows.begin + first + count; ++r)
      for (std::int64_t g = cols.begin / kGroup; g < cols.begin / kGroup + groups; ++g, to += block) {
        const std::int64_t group = r * (in / kGroup) + g;
        std::memcpy(to, &halves[static_cast<std::size_t>(group)], sizeof(std::uint16_t));
        part_halves(words->bytes.data() + group * kGroup / 2, to + sizeof(std::uint16_t));
      }
  };
  WeightPart part;
  OCTAVO_TRY(const std::byte* data, memory.make(rows.count, groups * block, write));
  part.values = Tensor(data, DType::q4_0, {rows.count, cols.count});
  return part;
}

}  // namespace octavo
