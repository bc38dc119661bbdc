#include "cpu/packed_blocks.h"

#include <cstring>

#include "base/check.h"
#include "tensor/float8.h"

namespace octavo::cpu {

namespace {

constexpr int kGroupNumbers = 32;  // numbers that have a scale of their own, but for q6_k
constexpr int kLargeBlock = 256;

double f16_at(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return f32_from_f16(bits);
}

int byte_at(const std::byte* from, int i) { return static_cast<int>(from[i]); }

struct SmallBlock {
  bool based = false;  // value = d q + m
  bool five_bits = false;
  int zero = 0;  // value = d (q - zero)
};

// Low nibbles are the first half of a block, high nibbles the second.
void load_small_block(const std::byte* block, const SmallBlock& kind, double* to) {
  const double d = f16_at(block);
  const double m = kind.based ? f16_at(block + 2) : 0.0;
  const std::byte* nibbles = block + (kind.based ? 4 : 2);
  std::uint32_t fifth = 0;
  if (kind.five_bits) {
    std::memcpy(&fifth, nibbles, sizeof fifth);
    nibbles += sizeof fifth;
  }
  for (int i = 0; i < kGroupNumbers; ++i) {
    const int pair = byte_at(nibbles, i % (kGroupNumbers / 2));
    const int q = (i < kGroupNumbers / 2 ? pair & 15 : pair >> 4) | static_cast<int>(fifth >> i & 1) << 4;
    to[i] = d * (q - kind.zero) + m;
  }
}

struct SixBits {
  int scale;
  int base;
};

// Of the first four groups each has the lower six bits of a byte. Of the last four the lower four bits are in the last
// four bytes, the upper two above the numbers of the first.
SixBits six_bits(const std::byte* packed, int group) {
  if (group < 4) return {byte_at(packed, group) & 63, byte_at(packed, group + 4) & 63};
  const int low = byte_at(packed, group + 4);
  return {(low & 15) | byte_at(packed, group - 4) >> 6 << 4, low >> 4 | byte_at(packed, group) >> 6 << 4};
}

void load_based_block(const std::byte* block, bool five_bits, double* to) {
  const double d = f16_at(block);
  const double m = f16_at(block + 2);
  const std::byte* fifth = block + 16;
  const std::byte* nibbles = fifth + (five_bits ? kGroupNumbers : 0);
  for (int group = 0; group < kLargeBlock / kGroupNumbers; ++group) {
    const SixBits factors = six_bits(block + 4, group);
    for (int i = 0; i < kGroupNumbers; ++i) {
      const int pair = byte_at(nibbles, group / 2 * kGroupNumbers + i);
      int q = group % 2 == 0 ? pair & 15 : pair >> 4;
      if (five_bits) q |= (byte_at(fifth, i) >> group & 1) << 4;
      to[group * kGroupNumbers + i] = d * factors.scale * q - m * factors.base;
    }
  }
}

void load_six_bit_block(const std::byte* block, double* to) {
  const std::byte* pairs = block + 128;
  const std::byte* scales = block + 192;
  const double d = f16_at(block + 208);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int half = i / 128;
    const int group = i % 128 / kGroupNumbers;
    const int low = byte_at(block, half * 64 + group % 2 * kGroupNumbers + i % kGroupNumbers) >> group / 2 * 4 & 15;
    const int high = byte_at(pairs, half * kGroupNumbers + i % kGroupNumbers) >> 2 * group & 3;
    to[i] = d * static_cast<std::int8_t>(scales[i / 16]) * ((low | high << 4) - 32);
  }
}

}  // namespace

void load_packed_block(const std::byte* block, DType dtype, double* to) {
  switch (dtype) {
    case DType::q4_0:
      return load_small_block(block, {.zero = 8}, to);
    case DType::q4_1:
      return load_small_block(block, {.based = true}, to);
    case DType::q5_0:
      return load_small_block(block, {.five_bits = true, .zero = 16}, to);
    case DType::q5_1:
      return load_small_block(block, {.based = true, .five_bits = true}, to);
    case DType::q8_0:
      for (int i = 0; i < kGroupNumbers; ++i) to[i] = f16_at(block) * static_cast<std::int8_t>(block[2 + i]);
      return;
    case DType::q4_k:
      return load_based_block(block, false, to);
    case DType::q5_k:
      return load_based_block(block, true, to);
    case DType::q6_k:
      return load_six_bit_block(block, to);
    default:
      check(false, "no block is packed in this dtype");
  }
}

}  // namespace octavo::cpu
