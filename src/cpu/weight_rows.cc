#include "cpu/weight_rows.h"

#include <cstring>

#include "cpu/packed_blocks.h"
#include "tensor/float8.h"

namespace octavo::cpu {

namespace {

template <class Number, class Decode>
void load_numbers(const std::byte* from, std::int64_t n, double* to, Decode decode) {
  for (std::int64_t i = 0; i < n; ++i) {
    Number number;
    std::memcpy(&number, from + i * static_cast<std::int64_t>(sizeof number), sizeof number);
    to[i] = decode(number);
  }
}

void load_values(const Tensor& values, std::int64_t row, double* to) {
  const std::byte* from = values.raw() + dtype_bytes(values.dtype(), row * values.stride(0));
  const std::int64_t n = values.size(1);
  switch (values.dtype()) {
    case DType::f32:
      return load_numbers<float>(from, n, to, [](float x) { return x; });
    case DType::bf16:
      return load_numbers<std::uint16_t>(from, n, to, f32_from_bf16);
    case DType::f16:
      return load_numbers<std::uint16_t>(from, n, to, f32_from_f16);
    case DType::e4m3:
      return load_numbers<std::uint8_t>(from, n, to, f32_from_e4m3);
    case DType::e5m2:
      return load_numbers<std::uint8_t>(from, n, to, f32_from_e5m2);
    case DType::e2m1:
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = f32_from_e2m1(static_cast<std::uint8_t>(from[i / 2]) >> (i % 2 * 4) & 15);
      return;
    default:
      check(is_packed(values.dtype()), "no weight is stored in this dtype");
  }
  const DTypeInfo info = dtype_info(values.dtype());
  for (std::int64_t i = 0; i < n / info.block_elems; ++i)
    load_packed_block(from + i * info.block_bytes, values.dtype(), to + i * info.block_elems);
}

void apply_scale(const WeightPart& part, std::int64_t row, double* to) {
  const std::int64_t n = part.values.size(1);
  if (part.values.dtype() == DType::e2m1) {
    const auto* exponents = part.scale.data<std::uint8_t>() + row * part.scale.stride(0);
    for (std::int64_t i = 0; i < n; ++i) to[i] *= f32_from_e8m0(exponents[i / part.block_cols]);
    return;
  }
  const float* scale = part.scale.data<float>();
  switch (part.grain) {
    case ScaleGrain::none:
      return;
    case ScaleGrain::tensor:
      for (std::int64_t i = 0; i < n; ++i) to[i] *= scale[0];
      return;
    case ScaleGrain::channel:
      for (std::int64_t i = 0; i < n; ++i) to[i] *= scale[row];
      return;
    case ScaleGrain::block:
      scale += row / part.block_rows * part.scale.stride(0);
      for (std::int64_t i = 0; i < n; ++i) to[i] *= scale[i / part.block_cols];
      return;
  }
}

}  // namespace

void load_weight_row(const Weight& weight, std::int64_t row, double* to) {
  for (const WeightPart& part : weight.parts) {
    if (row < part.values.size(0)) {
      load_values(part.values, row, to);
      apply_scale(part, row, to);
      return;
    }
    row -= part.values.size(0);
  }
  check(false, "a row beyond the weight");
}

void check_weight(const Weight& weight) {
  std::int64_t out = 0;
  for (const WeightPart& part : weight.parts) {
    check(part.values.rank() == 2 && part.values.size(1) == weight.in && part.values.stride(1) == 1,
          "a weight's part is [out, in], rows contiguous");
    const std::int64_t rows = part.values.size(0);
    const bool fits =
        part.grain == ScaleGrain::none || (part.grain == ScaleGrain::tensor && part.scale.elements() == 1) ||
        (part.grain == ScaleGrain::channel && part.scale.elements() == rows && part.scale.contiguous()) ||
        (part.grain == ScaleGrain::block && part.scale.rank() == 2 && part.block_rows > 0 && part.block_cols > 0 &&
         part.scale.size(0) * part.block_rows >= rows && part.scale.size(1) * part.block_cols >= weight.in);
    const bool packed = part.values.dtype() == DType::e2m1;
    check(fits && (part.grain == ScaleGrain::none || part.scale.dtype() == (packed ? DType::e8m0 : DType::f32)),
          "a weight's scales do not fit its grain");
    check(!packed || (part.grain == ScaleGrain::block && part.block_rows == 1 && part.block_cols == 32),
          "e2m1 numbers have a scale for each 32");
    out += rows;
  }
  check(out == weight.out, "a weight's parts do not add up to its rows");
}

}  // namespace octavo::cpu
