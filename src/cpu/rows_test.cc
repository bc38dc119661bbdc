// The row kernels of each instruction set that this processor has: codes against kv/codec.h over every bf16 number,
// angles and activations against double.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cpu/isa.h"
#include "cpu/row_tasks.h"
#include "kv/codec.h"

namespace octavo::cpu {
namespace {

struct Named {
  std::string name;
  const RowKernels* kernels;
};

std::vector<Named> kernels_here() {
  std::vector<Named> all;
  if (best_isa() >= Isa::avx2) all.push_back({"avx2", &avx2::kRowKernels});
  if (best_isa() >= Isa::avx512) all.push_back({"avx512", &avx512::kRowKernels});
  return all;
}

constexpr int kRow = 64;

// All bf16 numbers, NaN and infinity included, in rows of 64.
std::vector<float> every_bf16() {
  std::vector<float> numbers;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) numbers.push_back(f32_from_bf16(static_cast<std::uint16_t>(bits)));
  return numbers;
}

TEST(RowKernels, Float8CodesOfEveryBf16) {
  const std::vector<float> numbers = every_bf16();
  for (const Named& path : kernels_here())
    for (const KvElem elem : {KvElem::e4m3, KvElem::e5m2})
      for (const float scale : {1.0f, 0.37f, 1e-30f, 3e20f})
        for (std::size_t at = 0; at < numbers.size(); at += kRow) {
          const auto encode = elem == KvElem::e4m3 ? path.kernels->encode_e4m3 : path.kernels->encode_e5m2;
          std::uint8_t codes[kRow];
          const RowNotice notice = encode(numbers.data() + at, kRow, scale, codes);
          std::int64_t saturated = 0;
          float amax = 0.0f;
          for (int i = 0; i < kRow; ++i) {
            const float x = numbers[at + static_cast<std::size_t>(i)];
            ASSERT_EQ(codes[i], encode8(elem, x / scale)) << path.name << " " << x << " / " << scale;
            if (std::fabs(x / scale) > max_value(elem)) ++saturated;
            if (std::fabs(x) > amax) amax = std::fabs(x);
          }
          ASSERT_EQ(notice.saturated, saturated) << path.name;
          ASSERT_EQ(notice.amax, amax) << path.name;
        }
}

TEST(RowKernels, Int8CodesAndScalesOfEveryBf16) {
  const std::vector<float> numbers = every_bf16();
  for (const Named& path : kernels_here())
    for (std::size_t at = 0; at < numbers.size(); at += kRow) {
      const float* row = numbers.data() + at;
      const float amax = path.kernels->amax(row, kRow);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(amax), std::bit_cast<std::uint32_t>(row_amax(row, kRow))) << path.name;
      for (const float inverse : {int8_inverse(int8_scale(amax)), 1.0f, 0.5f, 1e4f, 0.0f}) {
        std::uint8_t codes[kRow];
        path.kernels->encode_int8(row, kRow, inverse, INFINITY, codes);
        for (int i = 0; i < kRow; ++i)
          ASSERT_EQ(static_cast<std::int8_t>(codes[i]), int8_from_f32(row[i], inverse))
              << path.name << " " << row[i] << " x " << inverse;
      }
    }
}

TEST(RowKernels, Int8TiesGoToEven) {
  std::vector<float> row;
  for (int i = 0; i < 256; ++i) row.push_back(static_cast<float>(i - 128) + 0.5f);
  for (const Named& path : kernels_here()) {
    std::uint8_t codes[256];
    path.kernels->encode_int8(row.data(), 256, 1.0f, 127.0f, codes);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double nearest = std::nearbyint(std::fmin(127.0, std::fmax(-127.0, static_cast<double>(row[i]))));
      EXPECT_EQ(static_cast<std::int8_t>(codes[i]), nearest) << path.name << " " << row[i];
    }
  }
}

TEST(RowKernels, Bf16RoundsToNearestEven) {
  for (const Named& path : kernels_here())
    for (std::uint32_t high = 0; high < 65536; high += 97)
      for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
        const std::vector<float> row(16, std::bit_cast<float>(high << 16 | low));
        std::uint16_t numbers[16];
        path.kernels->encode_bf16(row.data(), 16, numbers);
        ASSERT_EQ(numbers[5], bf16_from_f32(row[5])) << path.name << " " << std::hex << (high << 16 | low);
      }
}

TEST(RowKernels, AnglesOfAnyPosition) {
  std::vector<float> inv_freq;
  for (int i = 0; i < 35; ++i) inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / 35.0f));
  for (const Named& path : kernels_here())
    for (const float position : {0.0f, 1.0f, 2.0f, 3.0f, 5.0f, 511.0f, 8191.0f, 131071.0f, 1048575.0f, 16777215.0f}) {
      std::vector<float> cos(35), sin(35);
      path.kernels->angles(inv_freq.data(), 35, position, 1.25f, cos.data(), sin.data());
      for (std::size_t i = 0; i < inv_freq.size(); ++i) {
        const double angle = position * inv_freq[i];  // in float32
        EXPECT_NEAR(cos[i], 1.25 * std::cos(angle), 2.5e-7) << path.name << " " << position << " " << i;
        EXPECT_NEAR(sin[i], 1.25 * std::sin(angle), 2.5e-7) << path.name << " " << position << " " << i;
      }
    }
}

// silu holds an exponential, a quotient and a product: the bound is in units of the last place.
TEST(RowKernels, SiluOfEveryMagnitude) {
  std::vector<float> gate;
  for (float x = 1e-6f; x < 80.0f; x *= 1.07f) gate.insert(gate.end(), {x, -x});
  const std::vector<float> up(gate.size(), 1.0f);
  for (const Named& path : kernels_here()) {
    std::vector<float> out(gate.size());
    const auto row = [](const std::vector<float>& x) { return ActivationRow{const_cast<float*>(x.data()), false}; };
    const auto n = static_cast<std::int64_t>(gate.size());
    path.kernels->gate({row(gate), row(up), row(out), n, GateKind::silu, 0.0f});
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double want = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i])));
      EXPECT_LE(std::fabs(out[i] - want), 4.0 * 0x1p-24 * std::fabs(want)) << path.name << " " << gate[i];
    }
  }
}

}  // namespace
}  // namespace octavo::cpu
