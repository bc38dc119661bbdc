// The dtype names of safetensors, both ways; nullopt or empty where one side has no such kind of number.
// Block types have no name there, and its 4- and 6-bit floats and complex numbers have none here.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace octavo {

constexpr std::array<std::pair<std::string_view, DType>, 16> kSafetensorsDtypes{{
    {"F64", DType::f64},
    {"F32", DType::f32},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"F8_E4M3", DType::e4m3},
    {"F8_E5M2", DType::e5m2},
    {"F8_E8M0", DType::e8m0},
    {"I64", DType::i64},
    {"I32", DType::i32},
    {"I16", DType::i16},
    {"I8", DType::i8},
    {"U64", DType::u64},
    {"U32", DType::u32},
    {"U16", DType::u16},
    {"U8", DType::u8},
    {"BOOL", DType::boolean},
}};

constexpr std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [text, dtype] : kSafetensorsDtypes)
    if (text == name) return dtype;
  return std::nullopt;
}

constexpr std::string_view safetensors_name(DType dtype) {
  for (const auto& [text, known] : kSafetensorsDtypes)
    if (known == dtype) return text;
  return {};
}

}  // namespace octavo
