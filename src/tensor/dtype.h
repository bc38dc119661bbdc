// The kinds of number that octavo stores. A block type packs a fixed count of numbers with their scales (GGUF's names
// and bytes); all others are blocks of one. Sizes of arrays are computed from block_elems and block_bytes, nowhere
// else.
#pragma once

#include <cstdint>
#include <string_view>

namespace octavo {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  e4m3,
  e5m2,
  e8m0,  // a power of two, value 2^(byte - 127)
  e2m1,  // two numbers a byte, the first in the low nibble: sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  q4_0,   // 32 numbers in 18 bytes: f16 d, 16 bytes of nibbles; value = d (q - 8); low nibbles are the first half
  q4_1,   // 32 in 20 bytes: f16 d, f16 m, nibbles; value = d q + m
  q5_0,   // 32 in 22 bytes: f16 d, 4 bytes of fifth bits (bit i for number i), nibbles as q4_0; value = d (q - 16)
  q5_1,   // 32 in 24 bytes: f16 d, f16 m, fifth bits, nibbles; value = d q + m
  q8_0,   // 32 in 34 bytes: f16 d, 32 x int8; value = d q
  q4_k,   // 256 in 144 bytes: f16 d, f16 m, 12 bytes with 6 bits each of s and t for 32 numbers, nibbles: 32 bytes for
          // each 64 numbers, their first half in the low ones; value = d s q - m t
  q5_k,   // 256 in 176 bytes: as q4_k, before the nibbles 32 bytes of fifth bits: bit j of byte i for number 32 j + i
  q6_k,   // 256 in 210 bytes: 128 of nibbles, 64 bytes for each 128 numbers, their first half in the low ones; 64 of
          // upper bits, 32 bytes for each 128: two bits each for i, 32 + i, 64 + i, 96 + i; 16 x int8 s, for 16 numbers
          // each; f16 d; value = d s (q - 32)
  mxfp4,  // 32 in 17 bytes: e8m0 d, nibbles of e2m1 as q4_0's; in files only: devices keep e2m1 and e8m0 apart
};

struct DTypeInfo {
  std::string_view name;
  int block_elems;
  int block_bytes;
};

constexpr DTypeInfo dtype_info(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {"f32", 1, 4};
    case DType::f16:
      return {"f16", 1, 2};
    case DType::bf16:
      return {"bf16", 1, 2};
    case DType::e4m3:
      return {"e4m3", 1, 1};
    case DType::e5m2:
      return {"e5m2", 1, 1};
    case DType::e8m0:
      return {"e8m0", 1, 1};
    case DType::e2m1:
      return {"e2m1", 2, 1};
    case DType::f64:
      return {"f64", 1, 8};
    case DType::i8:
      return {"i8", 1, 1};
    case DType::i16:
      return {"i16", 1, 2};
    case DType::i32:
      return {"i32", 1, 4};
    case DType::i64:
      return {"i64", 1, 8};
    case DType::u8:
      return {"u8", 1, 1};
    case DType::u16:
      return {"u16", 1, 2};
    case DType::u32:
      return {"u32", 1, 4};
    case DType::u64:
      return {"u64", 1, 8};
    case DType::boolean:
      return {"bool", 1, 1};
    case DType::q4_0:
      return {"q4_0", 32, 18};
    case DType::q4_1:
      return {"q4_1", 32, 20};
    case DType::q5_0:
      return {"q5_0", 32, 22};
    case DType::q5_1:
      return {"q5_1", 32, 24};
    case DType::q8_0:
      return {"q8_0", 32, 34};
    case DType::q4_k:
      return {"q4_k", 256, 144};
    case DType::q5_k:
      return {"q5_k", 256, 176};
    case DType::q6_k:
      return {"q6_k", 256, 210};
    case DType::mxfp4:
      return {"mxfp4", 32, 17};
  }
  return {"?", 1, 0};
}

constexpr bool is_block_type(DType dtype) { return dtype_info(dtype).block_elems > 1; }

// GGUF's blocks with scales of their own, which weights stay packed in.
constexpr bool is_packed(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
      return true;
    default:
      return false;
  }
}

// Bytes of `count` numbers; count must be a multiple of the block.
constexpr std::int64_t dtype_bytes(DType dtype, std::int64_t count) {
  return count / dtype_info(dtype).block_elems * dtype_info(dtype).block_bytes;
}

}  // namespace octavo
