#include "cpu/weight_tiles.h"

#include <algorithm>
#include <optional>

#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

constexpr std::int64_t kOutsOfTile = 48;  // a kernel's own step
constexpr std::int64_t kBytesOfTile =
    24 << 10;  // of weights: some microseconds, so that no thread waits long at the end
constexpr std::int64_t kRowsOfPart = 16;
constexpr std::size_t kCacheLine = 64;
constexpr float kOne = 1.0f;

std::optional<WeightKind> kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return WeightKind::f32;
    case DType::f16:
      return WeightKind::f16;
    case DType::bf16:
      return WeightKind::bf16;
    case DType::e4m3:
      return WeightKind::e4m3;
    case DType::e2m1:
      return WeightKind::e2m1;
    case DType::q4_0:
      return WeightKind::q4_0;
    case DType::q4_1:
      return WeightKind::q4_1;
    case DType::q5_0:
      return WeightKind::q5_0;
    case DType::q5_1:
      return WeightKind::q5_1;
    case DType::q8_0:
      return WeightKind::q8_0;
    case DType::q4_k:
      return WeightKind::q4_k;
    case DType::q5_k:
      return WeightKind::q5_k;
    case DType::q6_k:
      return WeightKind::q6_k;
    default:
      return std::nullopt;
  }
}

bool wants_evens_first(const WeightPart& part) { return part.values.dtype() == DType::e2m1; }

bool is_tiled_part(const WeightPart& part) {
  if (!kind_of(part.values.dtype())) return false;
  if (part.values.dtype() == DType::e2m1) return true;
  if (part.values.dtype() != DType::e4m3) return part.grain == ScaleGrain::none;
  return part.grain != ScaleGrain::block || part.block_cols % kLinearPad == 0;
}

void set_scale(const WeightPart& part, LinearTile& tile) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 40;
  tile.scale_rows = kEndless;
  tile.scale_cols = kEndless;
  if (part.values.dtype() == DType::e2m1) {
    tile.exponents = part.scale.data<std::uint8_t>();
    tile.exponent_stride = part.scale.stride(0);
  }
  if (part.values.dtype() != DType::e4m3) return;
  tile.scale = part.grain == ScaleGrain::none ? &kOne : floats(part.scale);
  if (part.grain == ScaleGrain::channel) {
    tile.scale_rows = 1;
    tile.scale_stride = 1;
  } else if (part.grain == ScaleGrain::block) {
    tile.scale_rows = part.block_rows;
    tile.scale_cols = part.block_cols;
    tile.scale_stride = part.scale.size(1);
  }
}

void convert_row(const Tensor& x, std::int64_t from, WidenFunction widen, float* to, std::int64_t stride) {
  const std::int64_t in = x.size(1);
  if (x.dtype() == DType::bf16)
    widen(reinterpret_cast<const std::uint16_t*>(row_at(x, from)), in, to);
  else
    load_row(row_at(x, from), x.dtype(), in, to);
  std::fill(to + in, to + stride, 0.0f);
}

// Each 32 numbers: the even ones, then the odd ones. e2m1 rows are whole groups of 32.
void put_evens_first(float* row, std::int64_t n) {
  constexpr std::int64_t kGroup = 32;
  float copy[kGroup];
  for (std::int64_t g = 0; g < n; g += kGroup) {
    std::copy(row + g, row + g + kGroup, copy);
    for (std::int64_t i = 0; i < kGroup / 2; ++i) {
      row[g + i] = copy[2 * i];
      row[g + kGroup / 2 + i] = copy[2 * i + 1];
    }
  }
}

template <class RowOf>
Floats convert_rows(ThreadPool& pool, const Tensor& x, std::int64_t count, std::int64_t stride, InputOrder order,
                    WidenFunction widen, RowOf row_of) {
  Floats memory = make_floats(count * stride);
  pool.run((count + kRowsOfPart - 1) / kRowsOfPart, [&](std::int64_t part) {
    for (std::int64_t i = part * kRowsOfPart; i < std::min(count, (part + 1) * kRowsOfPart); ++i) {
      convert_row(x, row_of(i), widen, memory.get() + i * stride, stride);
      if (order == InputOrder::evens_first) put_evens_first(memory.get() + i * stride, stride);
    }
  });
  return memory;
}

std::int64_t padded_width(std::int64_t in) { return (in + kLinearPad - 1) / kLinearPad * kLinearPad; }

}  // namespace

Floats make_floats(std::int64_t count) {
  const auto bytes = (static_cast<std::size_t>(count) * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
  Floats memory(static_cast<float*>(std::aligned_alloc(kCacheLine, std::max(bytes, kCacheLine))));
  check(memory != nullptr, "no memory is left for the numbers of a linear layer");
  return memory;
}

InputOrder input_order(const Weight& weight) {
  return wants_evens_first(weight.parts.front()) ? InputOrder::evens_first : InputOrder::natural;
}

bool is_tiled(const Weight& weight) {
  return weight.in > 0 && std::all_of(weight.parts.begin(), weight.parts.end(), [&](const WeightPart& part) {
           return is_tiled_part(part) && wants_evens_first(part) == wants_evens_first(weight.parts.front());
         });
}

LinearTile tile_of(const WeightPart& part) {
  LinearTile tile;
  tile.in = part.values.size(1);
  tile.kind = *kind_of(part.values.dtype());
  tile.weight = reinterpret_cast<const std::uint8_t*>(part.values.raw());
  tile.row_bytes = dtype_bytes(part.values.dtype(), part.values.stride(0));
  set_scale(part, tile);
  return tile;
}

void add_tiles(const Weight& weight, const float* bias, const Tensor& out, std::vector<LinearTile>& tiles) {
  std::int64_t first = 0;  // the part's place among the outputs
  for (const WeightPart& part : weight.parts) {
    LinearTile tile = tile_of(part);
    tile.bias = bias == nullptr ? nullptr : bias + first;
    tile.out = out.raw() + dtype_bytes(out.dtype(), first);
    tile.out_stride = out.stride(0);
    tile.out_is_bf16 = out.dtype() == DType::bf16;
    const std::int64_t step = std::max<std::int64_t>(1, kBytesOfTile / (tile.row_bytes * kOutsOfTile)) * kOutsOfTile;
    const std::int64_t outs = part.values.size(0);
    for (tile.begin = 0; tile.begin < outs; tile.begin = tile.end) {
      tile.end = std::min(outs, tile.begin + step);
      tiles.push_back(tile);
    }
    first += outs;
  }
}

LinearInputs::LinearInputs(ThreadPool& pool, const Tensor& x, WidenFunction widen) {
  if (x.dtype() == DType::f32 && x.size(1) % kLinearPad == 0) {
    rows_ = x.data<float>();
    stride_ = x.stride(0);
    return;
  }
  stride_ = padded_width(x.size(1));
  memory_ = convert_rows(pool, x, x.size(0), stride_, InputOrder::natural, widen, [](std::int64_t i) { return i; });
  rows_ = memory_.get();
}

LinearInputs::LinearInputs(ThreadPool& pool, const Tensor& x, std::span<const std::int64_t> rows, InputOrder order,
                           WidenFunction widen)
    : stride_(padded_width(x.size(1))) {
  memory_ = convert_rows(pool, x, static_cast<std::int64_t>(rows.size()), stride_, order, widen,
                         [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; });
  rows_ = memory_.get();
}

}  // namespace octavo::cpu
