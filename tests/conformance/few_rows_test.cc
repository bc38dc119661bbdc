// linear for as few rows as a decode step has, in rows whose numbers are many times what a warp, or a block, takes.
// Over weights of e4m3 every code in every place: the sums are exact up to float32; a row that holds a NaN is NaN, and
// no other. Over bf16 parts side by side whose rows are no multiple of what a block makes.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/float8.h"
#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr std::int64_t kOut = 150;
constexpr std::int64_t kSide = 128;  // of blocks that share a scale

struct Codes {
  std::int64_t in = 0;
  ScaleGrain grain = ScaleGrain::none;
  std::vector<std::byte> bytes = {};
  std::vector<float> scale = {};
  std::int64_t scale_cols = 1;

  static bool is_nan(std::int64_t row) { return row == 3 || row == kOut - 2; }
  float scale_at(std::int64_t row, std::int64_t column) const {
    if (grain == ScaleGrain::tensor) return scale[0];
    const std::int64_t i = grain == ScaleGrain::channel ? row : row / kSide * scale_cols + column / kSide;
    return scale[static_cast<std::size_t>(i)];
  }
};

Codes make_codes(ScaleGrain grain, std::int64_t in, Random& random) {
  Codes codes{.in = in, .grain = grain};
  const bool blocks = grain == ScaleGrain::block;
  if (blocks) codes.scale_cols = (in + kSide - 1) / kSide;
  const std::int64_t rows = blocks ? (kOut + kSide - 1) / kSide : grain == ScaleGrain::channel ? kOut : 1;
  for (std::int64_t i = 0; i < rows * codes.scale_cols; ++i)
    codes.scale.push_back(0.002f * static_cast<float>(std::exp2(4 * random.uniform())));
  for (std::int64_t row = 0; row < kOut; ++row)
    for (std::int64_t i = 0; i < in; ++i) {
      auto code = static_cast<std::uint8_t>((row * in + i) * 37 + row);
      if ((code & 0x7F) == 0x7F) code ^= 1;
      if (row == 3 && i == 5) code = 0x7F;
      if (row == kOut - 2 && i == in - 1) code = 0xFF;
      codes.bytes.push_back(std::byte{code});
    }
  return codes;
}

// NaN rows as zeros.
std::vector<double> product_of_codes(const Codes& codes, const std::vector<float>& x) {
  std::vector<double> result;
  for (std::size_t token = 0; token < x.size() / static_cast<std::size_t>(codes.in); ++token)
    for (std::int64_t row = 0; row < kOut; ++row) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < codes.in && !Codes::is_nan(row); ++i)
        sum += double{x[token * static_cast<std::size_t>(codes.in) + static_cast<std::size_t>(i)]} *
               f32_from_e4m3(static_cast<std::uint8_t>(codes.bytes[static_cast<std::size_t>(row * codes.in + i)])) *
               codes.scale_at(row, i);
      result.push_back(sum);
    }
  return result;
}

void run_codes(ScaleGrain grain, std::int64_t tokens, std::int64_t in) {
  Random random(29);
  const Codes codes = make_codes(grain, in, random);
  const std::vector<float> x = rounded(random.normals(tokens * in), DType::bf16);
  const std::vector<double> want = product_of_codes(codes, x);
  for_each_path([&](Path& path) {
    if (!path.processor && path.deterministic) return;  // a product of many rows, which rounds its inputs
    Arena arena(path.backend->device());
    WeightPart part;
    part.values = arena.bytes(codes.bytes, DType::e4m3, {kOut, in});
    part.grain = grain;
    part.block_rows = part.block_cols = static_cast<int>(kSide);
    const auto scales = static_cast<std::int64_t>(codes.scale.size());
    part.scale = grain == ScaleGrain::block ? arena.floats(codes.scale, {scales / codes.scale_cols, codes.scale_cols})
                                            : arena.floats(codes.scale, {scales});
    const Weight weight{.parts = {part}, .out = kOut, .in = in};
    const Tensor result = arena.blank({tokens, kOut});
    path.backend->ops().linear({.x = arena.floats(x, {tokens, in}, path.processor ? DType::f32 : DType::bf16),
                                .weight = weight,
                                .bias = {},
                                .out = result});
    std::vector<float> got = arena.read(result);
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t row = 0; row < kOut; ++row) {
        if (!Codes::is_nan(row)) continue;
        float& number = got[static_cast<std::size_t>(token * kOut + row)];
        EXPECT_TRUE(std::isnan(number)) << "token " << token << ", row " << row;
        number = 0.0f;
      }
    expect_close(std::to_string(tokens) + " tokens of " + std::to_string(in), got, want, kOut, 1e-5);
  });
}

TEST(Linear, FewRowsTakeEveryCodeAtItsValue) {
  for (const ScaleGrain grain : {ScaleGrain::tensor, ScaleGrain::channel, ScaleGrain::block}) {
    run_codes(grain, 1, 2432);
    run_codes(grain, 1, 9008);
    run_codes(grain, 5, 4496);
    run_codes(grain, 8, 128);
  }
}

TEST(Linear, OneRowOfPartsSideBySide) {
  Random random(31);
  for (const std::int64_t in : {64, 2056, 5000}) {
    const std::vector<float> x = rounded(random.normals(in), DType::bf16);
    const std::vector<std::vector<float>> parts = {rounded(random.normals(7 * in), DType::bf16),
                                                   rounded(random.normals(1 * in), DType::bf16),
                                                   rounded(random.normals(4 * in), DType::bf16)};
    const std::vector<float> bias = random.normals(12);
    std::vector<double> want(bias.begin(), bias.end());
    std::size_t row = 0;
    for (const std::vector<float>& part : parts)
      for (std::size_t first = 0; first < part.size(); first += x.size(), ++row)
        for (std::size_t i = 0; i < x.size(); ++i) want[row] += double{x[i]} * part[first + i];
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      Weight weight{.parts = {}, .out = 12, .in = in};
      for (const std::vector<float>& part : parts)
        weight.parts.emplace_back().values =
            arena.floats(part, {static_cast<std::int64_t>(part.size()) / in, in}, DType::bf16);
      const Tensor result = arena.blank({1, 12});
      path.backend->ops().linear({.x = arena.floats(x, {1, in}, path.processor ? DType::f32 : DType::bf16),
                                  .weight = weight,
                                  .bias = arena.floats(bias, {12}),
                                  .out = result});
      // One that answers alone as in company is a product of many rows: tensor cores round their sums.
      const double bound = !path.processor && path.deterministic ? 1e-4 : 1e-5;
      expect_close("one row of " + std::to_string(in), arena.read(result), want, 12, bound);
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
