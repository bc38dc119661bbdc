#include "tests/conformance/host_weights.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/gguf.h"
#include "tensor/float8.h"

namespace octavo::conformance {
namespace {

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

// 32 numbers of e2m1 and their scale, a power of two.
void append_fours(HostPart& part, Random& random) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int exponent = random.below(6) - 8;
  part.exponents.push_back(static_cast<std::byte>(exponent + 127));
  int first = 0;
  for (int i = 0; i < 32; ++i) {
    const int code = random.below(16);
    part.values.push_back(std::ldexp((code & 8) != 0 ? -kMagnitudes[code & 7] : kMagnitudes[code], exponent));
    if (i % 2 == 1) part.bytes.push_back(static_cast<std::byte>(first | code << 4));
    first = code;
  }
}

// Blocks of each packed dtype and what the gguf package reads from them (tests/fixtures/checkpoint/make_packed.py).
const GgufFile& packed_blocks() {
  static const GgufFile file = [] {
    auto opened = GgufFile::open(OCTAVO_SOURCE_DIR "/tests/fixtures/checkpoint/packed.gguf");
    check(opened.has_value(), "the fixture of packed blocks is not there");
    return std::move(*opened);
  }();
  return file;
}

const StoredTensor& packed_tensor(const std::string& name) {
  const auto& tensors = packed_blocks().tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  check(found != tensors.end(), "the fixture has no blocks of this dtype");
  return *found;
}

// Blocks of the fixture in random order.
void append_blocks(HostPart& part, std::int64_t count, Random& random) {
  const DTypeInfo info = dtype_info(part.dtype);
  const StoredTensor& blocks = packed_tensor(std::string(info.name));
  const std::vector<float> values = *read_floats(packed_tensor(std::string(info.name) + ".values"));
  const auto bytes = static_cast<std::size_t>(info.block_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto chosen = static_cast<std::size_t>(random.below(static_cast<int>(blocks.bytes.size() / bytes)));
    append(part.bytes, blocks.bytes.data() + chosen * bytes, bytes);
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(chosen) * info.block_elems;
    part.values.insert(part.values.end(), first, first + info.block_elems);
  }
}

void append_number(HostPart& part, float x) {
  switch (part.dtype) {
    case DType::f32:
      append(part.bytes, &x, 4);
      part.values.push_back(x);
      return;
    case DType::f16:
    case DType::bf16: {
      const std::uint16_t bits = part.dtype == DType::f16 ? f16_from_f32(x) : bf16_from_f32(x);
      append(part.bytes, &bits, 2);
      part.values.push_back(part.dtype == DType::f16 ? f32_from_f16(bits) : f32_from_bf16(bits));
      return;
    }
    default: {
      const std::uint8_t code = e4m3_from_f32(x * 64);
      append(part.bytes, &code, 1);
      part.values.push_back(f32_from_e4m3(code));
    }
  }
}

}  // namespace

double scale_at(const HostPart& part, std::int64_t row, std::int64_t column) {
  switch (part.grain) {
    case ScaleGrain::none:
      return 1.0;
    case ScaleGrain::tensor:
      return part.scale[0];
    case ScaleGrain::channel:
      return part.scale[static_cast<std::size_t>(row)];
    case ScaleGrain::block:
      return part.scale[static_cast<std::size_t>(row / part.block_rows * part.scale_cols + column / part.block_cols)];
  }
  return 0.0;
}

HostPart make_part(DType dtype, ScaleGrain grain, std::int64_t out, std::int64_t in, Random& random) {
  HostPart part{.dtype = dtype, .grain = grain, .out = out, .in = in};
  if (dtype == DType::e2m1) {
    for (std::int64_t i = 0; i < out * in / 32; ++i) append_fours(part, random);
    return part;
  }
  if (is_block_type(dtype))
    append_blocks(part, out * in / dtype_info(dtype).block_elems, random);
  else
    for (std::int64_t i = 0; i < out * in; ++i) append_number(part, random.normal() * 0.1f);
  part.block_rows = 16;
  part.block_cols = 48;
  part.scale_rows = grain == ScaleGrain::block ? (out + 15) / 16 : grain == ScaleGrain::channel ? out : 1;
  part.scale_cols = grain == ScaleGrain::block ? (in + 47) / 48 : 1;
  for (std::int64_t i = 0; grain != ScaleGrain::none && i < part.scale_rows * part.scale_cols; ++i)
    part.scale.push_back(0.003f * static_cast<float>(1.0 + 7.0 * random.uniform()));
  for (std::int64_t i = 0; i < out * in; ++i)
    part.values[static_cast<std::size_t>(i)] *= scale_at(part, i / in, i % in);
  return part;
}

std::vector<WeightKind> all_weight_kinds() {
  std::vector<WeightKind> kinds(std::begin(kWeightKinds), std::end(kWeightKinds));
  kinds.insert(kinds.end(), std::begin(kLargeKinds), std::end(kLargeKinds));
  return kinds;
}

Weight upload(Arena& arena, const std::vector<HostPart>& parts) {
  Weight weight;
  for (const HostPart& host : parts) {
    WeightPart part;
    part.values = arena.bytes(host.bytes, host.dtype, {host.out, host.in});
    part.grain = host.grain;
    part.block_rows = host.block_rows;
    part.block_cols = host.block_cols;
    if (host.dtype == DType::e2m1) {
      part.block_rows = 1;
      part.block_cols = 32;
      part.scale = arena.bytes(host.exponents, DType::e8m0, {host.out, host.in / 32});
    } else if (host.grain == ScaleGrain::block)
      part.scale = arena.floats(host.scale, {host.scale_rows, host.scale_cols});
    else if (host.grain != ScaleGrain::none)
      part.scale = arena.floats(host.scale, {host.scale_rows});
    weight.parts.push_back(part);
    weight.out += host.out;
    weight.in = host.in;
  }
  return weight;
}

std::vector<double> product(const std::vector<HostPart>& parts, const std::vector<float>& x,
                            const std::vector<float>& bias) {
  const std::int64_t in = parts[0].in;
  std::vector<double> result;
  for (std::size_t row = 0; row < x.size() / static_cast<std::size_t>(in); ++row) {
    std::size_t output = 0;
    for (const HostPart& part : parts)
      for (std::int64_t o = 0; o < part.out; ++o, ++output) {
        double sum = bias.empty() ? 0.0 : bias[output];
        for (std::int64_t i = 0; i < in; ++i)
          sum += static_cast<double>(x[row * static_cast<std::size_t>(in) + static_cast<std::size_t>(i)]) *
                 part.values[static_cast<std::size_t>(o * in + i)];
        result.push_back(sum);
      }
  }
  return result;
}

}  // namespace octavo::conformance
